// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/plan/plan.h"
#include "partitioner/planners/planner.h"

// Why a plan is as fast as it is, and what would make it faster: every number is the simulator's
// answer to a changed plan, a changed pool or a changed link.
namespace hetpipe {

// The effect of a change. Absent `relative`: it is not possible, and why_not is the reason.
struct Alternative {
  std::string what;
  std::optional<double> relative;  // of the throughput: 0.06 is "+6 %"
  std::string why_not;
};

// The stage that takes longest per minibatch, and what its device does with its time.
struct Bottleneck {
  int virtual_worker = 0;
  int stage = 0;
  DeviceName device;
  double compute_seconds = 0;  // per minibatch
  double receive_seconds = 0;
  double busy = 0;  // fractions of the time, simulated
  double communication = 0;
  double bubble = 0;
  std::string limited_by;  // "compute", "communication" or "bubble": the largest of the three
};

// What limits the work in flight: Nm, or micro-batches under a flush.
struct DepthLimit {
  std::string what;  // "Nm" or "micro-batches"
  int now = 0;
  int tried = 0;
  // "memory", "throughput", "accuracy" (faster, but of later updates: worth less by the request's
  // objective), or empty: more would be better.
  std::string limited_by;
  std::optional<double> relative;  // of what was tried, where it runs
  // Where memory is missing:
  int virtual_worker = 0;
  int stage = 0;
  DeviceName device;
  std::int64_t missing_bytes = 0;
  std::string why_not;  // where the schedule cannot do it
  double samples = 0;   // more of them until an accuracy: 0.06 is "+6 %"
};

struct Explanation {
  Bottleneck bottleneck;
  std::vector<Alternative> moves;  // one layer of the bottleneck to a neighbour, each way
  DepthLimit depth;
  std::vector<Alternative> leave_out;  // one device of each kind and node, planned again
  std::vector<Alternative> links;      // each link with twice its bandwidth
  std::vector<std::string> idle;       // devices that the plan does not use
  std::vector<std::string> sentences;  // all of it as text
};

// Pools with more devices are not planned again without each of theirs: it would take too long.
inline constexpr int kMostDevicesToLeaveOut = 64;

Explanation explain(const PlanRequest& request, const Plan& plan);

}  // namespace hetpipe
