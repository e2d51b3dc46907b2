// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "launch/report/device_time.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// What a run says about the profile that it was planned with.
namespace hetpipe {

// What a replica of a stage was predicted to compute by the profile, and what it did compute, in
// seconds per minibatch.
struct StageTimes {
  double forward = 0;
  double backward = 0;
  double update = 0;
  double measured_forward = 0;
  double measured_backward = 0;
  double measured_update = 0;
};
// Nothing where the profile does not cover the device, or nothing was computed.
std::optional<StageTimes> stage_times_of(const DeviceTime& time, const Plan& plan,
                                         const Cluster& cluster, const Profile& profile);

// The profile with times as the run had them: each layer's by what its stages took on its type of
// device, and layers that no stage of a type had by that type's mean. UserError where the profile
// does not cover a device of the plan.
Profile measured_profile(const std::vector<DeviceTime>& times, const Plan& plan,
                         const Cluster& cluster, const Profile& profile);

}  // namespace hetpipe
