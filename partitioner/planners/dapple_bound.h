// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "partitioner/planners/dapple_search.h"

// Bounds on the speed of DAPPLE plans, with which the search drops beginnings.
namespace hetpipe {

// Some of a pool's devices.
struct DappleDevices {
  std::vector<DappleStage::Run> runs;
  std::vector<double> of_kind;  // [kind], how many
  int count = 0;
  double speed = 0;  // in devices as fast as the fastest
};

class DappleBounds {
 public:
  DappleBounds(const DappleModel& model, const DapplePool& pool);

  DappleDevices set_of(std::vector<DappleStage::Run> runs) const;

  // F + B of a stage is no less than its work spread evenly, in proportion to speed.
  double even_seconds(int first, int end, const DappleDevices& devices) const;

  // The slowest of the stages that hold the layers from `layer` on is no faster than these spread
  // evenly over devices that are as fast as they can be: layer l takes kind k at least
  // slowness_[k] times what it takes the kind that is fastest for it.
  double rest_seconds(int layer, const DappleDevices& rest) const;

  // No plan that begins with these blocks, and whose slowest later block takes at least `left`, is
  // faster; nor does it become so when its backwards grow (recomputation). With x = F + B, the
  // pivot's x is as large as that of any block behind it, and T_w + T_e is at least the sum of x up
  // to the pivot, and at least AR_s - (sum of B before s) more than that, for s up to the pivot.
  // Where the pivot Q comes later, l1 <= l2 for block s says (M-1) x_Q + sum over s<t<Q of x_t >=
  // (M-1) x_s.
  // The likely bound leaves out pivots among these blocks that a later block outlasts already.
  struct Latency {
    double proven = 0;
    double likely = 0;
  };
  Latency of(const std::vector<PipelineBlock>& blocks, double left, int micro_batches);

 private:
  const DapplePool& pool_;
  RunningSum reference_;             // seconds on the kind that is fastest for each layer
  std::vector<double> slowness_;     // [kind]
  std::vector<RunningSum> seconds_;  // [kind], forward + backward
  std::vector<std::pair<double, double>> sums_;  // of()'s own
};

}  // namespace hetpipe
