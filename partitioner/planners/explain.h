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
  // Of what the request's objective makes of the samples/s (PlanRequest::worth): 0.06 is "+6 %".
  std::optional<double> relative = {};
  std::string why_not = {};
  double throughput = 0;           // then, samples/s
  double relative_throughput = 0;  // of these
};

// What single remedies give, as Alternative::relative: what limits a plan follows from them.
struct Remedies {
  double compute = 0;    // all devices twice as fast
  double bandwidth = 0;  // all links with twice their bandwidth
  double latency = 0;    // all links with half their latency
  // One more in flight or twice as many, whichever gives more, if memory were no concern; absent:
  // the schedule can do neither.
  std::optional<double> depth = {};
};

// A stage that what limits the plan shows in, and what its device does with its time: the longest
// to compute, to receive, or both.
struct Bottleneck {
  int virtual_worker = 0;
  int stage = 0;
  DeviceName device;
  double compute_seconds = 0;  // per minibatch
  double receive_seconds = 0;
  double busy = 0;  // fractions of the time, simulated
  double communication = 0;
  double bubble = 0;
  // The remedy that gives most: "compute", "bandwidth", "latency", or "compute and bandwidth" if
  // only both together give anything. "depth" if the busiest device waits for a tenth of the time
  // or more, and more in flight makes up for half of that: no other hardware is needed. "memory" if
  // there is none for it. Empty: none gives anything.
  std::string limited_by = {};
  std::string second = {};  // what limits it beside that; empty: nothing much
};

// What limits the work in flight: Nm, or micro-batches under a flush.
struct DepthLimit {
  std::string what;  // "Nm" or "micro-batches"
  int now = 0;
  int tried = 0;
  // "memory", "throughput", "accuracy" (faster, but of later updates: worth less by the request's
  // objective), or empty: more would be better.
  std::string limited_by;
  std::optional<double> relative;  // of what was tried, where it runs, as Alternative::relative
  double relative_throughput = 0;  // of its samples/s
  // Where memory is missing:
  int virtual_worker = 0;
  int stage = 0;
  DeviceName device;
  std::int64_t missing_bytes = 0;
  std::string why_not;  // where the schedule cannot do it
  double samples = 0;   // more of them until an accuracy: 0.06 is "+6 %"
};

struct Explanation {
  std::string objective = {};  // of objective_names(): what changes are changes of
  Bottleneck bottleneck;
  Remedies remedies = {};
  std::vector<Alternative> moves;  // one layer of the bottleneck to a neighbour, each way
  DepthLimit depth;
  std::vector<Alternative> leave_out;     // one device of each kind and node, planned again
  std::vector<Alternative> devices = {};  // each kind of device twice as fast, if there are several
  std::vector<Alternative> links;         // each link with twice its bandwidth
  std::vector<std::string> idle;          // devices that the plan does not use
  std::vector<std::string> sentences;     // all of it as text
};

// Pools with more devices are not planned again without each of theirs: it would take too long.
inline constexpr int kMostDevicesToLeaveOut = 64;

Explanation explain(const PlanRequest& request, const Plan& plan);

// Of that, only what limits the plan.
Bottleneck find_bottleneck(const PlanRequest& request, const Plan& plan);

}  // namespace hetpipe
