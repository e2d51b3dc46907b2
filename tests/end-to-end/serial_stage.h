// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/sampler.h"
#include "tests/end-to-end/serial_layers.h"
#include "tests/end-to-end/serial_optimizer.h"

// A stage of a serial program: consecutive layers, and the replicas that split each micro-batch.
// It computes with whatever weights it is given; which these are is the caller's question.
namespace hetpipe {

inline void add(Floats& to, const Floats& what) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
}

// One micro-batch on its way through the stages: what passes between them, by value.
struct SerialMicroBatch {
  SerialLayers::Samples samples;
  std::map<int, Floats> values;     // outputs, by layer; kSamples: the images
  std::map<int, Floats> gradients;  // of the loss by these, summed over the consumers so far
  Floats losses;                    // of each sample, once the loss has been computed
  int size() const { return static_cast<int>(samples.keys.size()); }
};

// Consecutive micro-batches of a minibatch; the first (n mod `count`) have one sample more than
// floor(n / count), and some may be empty.
std::vector<SerialMicroBatch> micro_batches_of(const Dataset& data, const Sampler& sampler,
                                               SampleRange minibatch, int count);

// What one replica keeps of a micro-batch from its F to its B.
struct SerialPass {
  int first = 0;  // sample of the micro-batch
  SerialLayers::Samples samples;
  std::map<int, Floats> inputs;              // from other stages, by layer; kSamples
  std::map<int, SerialLayers::Kept> layers;  // of this stage
};

// Weights of tied parameters whose owner is in an earlier stage, by name.
using SerialForeign = std::map<std::string, Floats>;

class SerialStage {
 public:
  // Layers [first, end); a share per replica. Replica r of S shares takes of n samples
  // floor(n c(r) / S) ... floor(n c(r+1) / S), where c are the shares' prefix sums.
  SerialStage(SerialLayers& layers, int first, int end, std::vector<int> shares);

  int first() const { return first_; }
  int end() const { return end_; }
  int replicas() const { return static_cast<int>(shares_.size()); }
  const std::vector<int>& shares() const { return shares_; }
  // Of the stage's layers, as its flat arrays hold them.
  const ParameterLayout& parameters() const { return parameters_; }
  // Own parameters', then the parts of uses.
  std::int64_t gradient_count() const { return parameters_.count() + parameters_.use_count(); }
  bool uses_foreign(const std::string& name) const;
  const ParameterLayout& statistics() const { return statistics_; }

  // F: a pass per replica. statistics[replica]: running ones, updated. Nothing happens to replicas
  // without samples.
  std::vector<SerialPass> forward(SerialMicroBatch& micro, const Floats& weights,
                                  std::vector<Floats>& statistics,
                                  const SerialForeign& foreign = {});
  // F once more with other weights, from the inputs that the passes have. Leaves running statistics
  // and what was sent on alone.
  void recompute(std::vector<SerialPass>& passes, const Floats& weights,
                 const SerialForeign& foreign = {});
  // B with the outputs that the passes keep and the Jacobians of `weights`: adds the gradient of
  // the mean loss over `loss_samples` to gradients[replica]; an empty one becomes it.
  void backward(SerialMicroBatch& micro, const std::vector<SerialPass>& passes,
                const Floats& weights, std::int64_t loss_samples, std::vector<Floats>& gradients,
                const SerialForeign& foreign = {});

 private:
  Floats weights_of(int layer, const Floats& weights, const SerialForeign& foreign) const;
  void compute(SerialPass& pass, const Floats& weights, const SerialForeign& foreign,
               Floats& statistics);
  std::vector<const Floats*> inputs_of(int layer, const SerialPass& pass) const;
  Floats slice(int layer, const Floats& whole, const SerialPass& pass) const;
  void put(int layer, const Floats& part, const SerialPass& pass, const SerialMicroBatch& micro,
           Floats& whole) const;

  SerialLayers& layers_;
  int first_;
  int end_;
  std::vector<int> shares_;
  ParameterLayout parameters_;
  ParameterLayout statistics_;
};

}  // namespace hetpipe
