// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/plan/unmeasured.h"
#include "partitioner/planners/planner.h"
#include "partitioner/planners/what_if_settings.h"
#include "partitioner/profile/profile.h"

// Plans for other pools, links and settings: a request changed by a text, planned and compared.
namespace hetpipe {

// A device type that the cluster does not have, by name: from a catalogue of devices.
using FindKind = std::function<std::optional<DeviceKind>(const std::string& name)>;

struct PoolChange {
  Cluster cluster;
  PlanSettings settings = {};
  std::map<DeviceName, DeviceName> before = {};  // what its devices were called; of added ones none
};

// The cluster after the changes, separated by commas:
//   +N TYPE @NODE   N more devices of a type on a node, which may be new ("+TYPE @NODE": one)
//   -NODE           without a node and its devices
//   -NODE:INDEX     without one device; those after it move up by one
//   -N TYPE @NODE   without the last N devices of a type on that node
//   -N TYPE         likewise, from the last nodes that have some
//   links xF        F times the bandwidth of every link
//   intra xF        ... of the links within nodes ("intra = B": so many bytes/s, or "100Gb/s")
//   inter xF        ... of those between nodes, likewise, but for those with a rule of their own
//   link A B xF     ... of the one between two nodes or two types of device, likewise
//   minibatch = N   samples of a virtual worker's minibatch
//   in-flight = N, clock-distance = N   likewise Nm and D
// `known` are the names that a kind may have beside the cluster's, for "did you mean". UserError
// under `where` that names what is wrong with which change.
PoolChange changed_pool(const Cluster& cluster, std::string_view changes, const FindKind& find_kind,
                        const std::vector<std::string>& known, const std::string& where);

// One pool, planned. What a plan is judged by, in one line.
struct Answer {
  std::string change;              // as asked; empty: the pool as it is
  std::optional<Plan> plan;        // absent: none fits
  std::string why_not;             // then, the planner's reason
  double throughput = 0;           // samples/s
  double worth = 0;                // what the objective makes of them
  double relative = 0;             // worth against the pool as it is, -0.04: 4 % less
  double relative_throughput = 0;  // likewise
  int devices = 0;                 // of the pool, used or not
  int idle = 0;                    // of those, without a stage
  std::string bottleneck;  // "w0 s1 on n0:1 rtx-2060, compute": with what limits it (explain.h)
  std::string fullest;     // "n0:1 rtx-2060, 93 %"
  std::vector<UnmeasuredTimes> unmeasured = {};  // what the plan's times are based on
};

// What limits the request's plan, and the device whose memory it fills most.
Answer judged(const PlanRequest& request, const Plan& plan);

// A change in words and the pool after it.
struct ChangedPool {
  std::string change;
  Cluster cluster;
  Profile profile;  // that covers its kinds
  PlanSettings settings = {};
};

// The answer for the request's plan, then for each changed pool. One for which nothing can be
// planned is answered with the reason.
std::vector<Answer> what_if(const PlanRequest& request, const Plan& plan,
                            const std::vector<ChangedPool>& pools);

// The answers side by side.
std::string what_if_table(const std::vector<Answer>& answers, const PlanRequest& request);

}  // namespace hetpipe
