// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/estimate_record.h"
#include "partitioner/profile/profile.h"

// Which of a plan's times were not measured, so that a prediction states what it is based on.
namespace hetpipe {

class Json;

enum class TimeOrigin {
  estimated,    // no measurement on the kind at all (profile/estimate.h)
  extrapolated  // measured, but all at larger batches, or all at smaller ones
};
std::string_view to_string(TimeOrigin origin);

struct UnmeasuredTimes {
  std::string kind;
  TimeOrigin origin = TimeOrigin::estimated;
  std::string
      text;  // "rtx-2060: estimated from v100's measurement by roofline (expected error ...)"
  std::optional<EstimateRecord> record = {};  // of an estimate: how far such ones were off
};

// One for each device type that the plan uses and whose times are not measured, or lie between
// no two measured batches; in the cluster's order of kinds. Ensures that check_plan has passed.
std::vector<UnmeasuredTimes> unmeasured_times(const Plan& plan, const Cluster& cluster,
                                              const Profile& profile);

// An array of device, how ("estimated", "extrapolated"), what (as text) and, of estimates,
// expected_error: mean and worst |relative error| of how many that were compared with measurements
// (profile/estimate_record.h).
Json unmeasured_json(const std::vector<UnmeasuredTimes>& times);

// As text: a line each under a heading; empty if everything was measured.
std::string unmeasured_text(const std::vector<UnmeasuredTimes>& times);

}  // namespace hetpipe
