// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "partitioner/cluster/cluster.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/search_starts.h"

namespace hetpipe {

// How far a search looks. "Of the best" means of the worth of the best plan so far, "of what is to
// be beaten" of that of the pool with a device more.
struct SearchEffort {
  std::int64_t actions = 0;         // simulated, of which its steps take parts
  std::size_t simulated = 8;        // compositions of a row
  bool plans_first = false;         // of compositions, before any is simulated
  double hopeless = 0.75;           // of the best, by an estimate: not worth simulating
  std::int64_t cutting = kCutWork;  // steps of the partitioner for a virtual worker
  bool without_each = false;        // compositions by rules without each device, too
  double may_gain = 0.9;            // of what is to be beaten, by an estimate: worth simulating
  double may_reach = 1;             // of it, by a bound of the estimates: worth estimating
  double may_start = 1;             // of it: steps from the best few plans may bring it near
  bool cuts_anew = false;           // in smaller pools: those of a larger one steer where it looks
  StartLimits starts;               // of steps
  std::size_t polished = 8;         // plans
  double worth_polishing = 0.95;    // of the best
  int polishing = 0;                // simulations of a plan that polishing it may take at least
  bool exchanges_again = false;     // tries polished plans under every row once more
  bool several_cuts = false;        // steps move layers across several cuts at once
  double near_alone = 0;            // of the best: rows that are searched alone; 0: none
  bool alone_whatever = false;      // and as far as if they had nothing to beat
  bool leaves_out_groups = false;   // as in smaller_pools()
  bool anneals = false;             // the best plans
};

// More in pools of few devices, and in those of up to 24 whose nodes have more than four kinds in
// all: the more kinds on nodes, the more virtual workers differ.
SearchEffort search_effort(const Cluster& cluster);

}  // namespace hetpipe
