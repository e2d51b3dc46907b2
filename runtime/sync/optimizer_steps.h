// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/device.h"
#include "partitioner/schedule/wave_rules.h"
#include "runtime/pipeline/optimizer.h"
#include "runtime/sync/label_step.h"

namespace hetpipe {

// The optimizer of a training at its servers (docs/server-step.md). Stages make steps of plain SGD,
// of learning_rate(p) for minibatch p; of a wave w of minibatches P, and changes d of them that are
// the mean over the virtual workers, the gradient is
//   g = -d / sum over P of learning_rate(p)
// the mean over the samples of all of them. It makes the optimizer's change u(w), at the rate of
// the newest minibatch of P. The weights behind the wave are those of a training that looks ahead:
//   before + u(w) + ahead (u(w) - u(w - 1))
// which are `ahead` steps further along u(w) than the sum of all u. In float. The state: the
// optimizer's slots, and u(w).
class OptimizerSteps final : public LabelStep {
 public:
  struct Setup {
    OptimizerOptions optimizer;
    OptimizerOptions of_stages;                                 // plain SGD
    std::vector<std::vector<OptimizedParameter>> parameters{};  // by layer of the shard
    double ahead = 0;
  };
  // The device computes in the host's memory.
  OptimizerSteps(const Setup& setup, const WaveRules& rules, std::unique_ptr<Device> device);

  bool takes_changes() const override { return true; }
  void make(Wave wave, std::span<const float> before, std::span<float> next, State& state,
            const std::function<void()>& between) override;

 private:
  struct Layer {
    std::size_t first = 0, count = 0;  // of the shard's parameters
    std::unique_ptr<Optimizer> optimizer;
  };
  void make_layer(Layer& layer, Wave wave, Minibatch newest, std::span<const float> before,
                  std::span<float> next, State& state);

  const WaveRules& rules_;
  OptimizerOptions of_stages_;
  float ahead_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Layer> layers_;
  std::shared_ptr<void> nobody_ = std::make_shared<int>();  // gives memory back that is a label's
};

}  // namespace hetpipe
