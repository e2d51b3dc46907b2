// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/ids.h"
#include "partitioner/plan/plan.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sampler.h"
#include "runtime/model/model.h"
#include "tests/end-to-end/serial_optimizer.h"
#include "tests/end-to-end/serial_stage.h"
#include "tests/end-to-end/serial_wsp.h"

// What every system computes, as programs in one thread, written from the equations and apart from
// the runtime, which must reach the same weights bit for bit. A stage is a slice of layers with its
// own history of weights; activations and gradients pass by value.
//
// A label L of a run without parameter servers: the updates of all minibatches below L in_flight
// are in. Weights and optimizer state are those of that moment at each stage. Running statistics
// are the mean over virtual workers and replicas by samples.
namespace hetpipe {

// Which weights one F and its B saw: so many updates were in them (under WSP: own ones, of the
// current wave and before, and the label's), and so far ahead they were predicted.
struct SerialUse {
  int worker = 0;
  int stage = 0;
  Minibatch minibatch = 0;
  int micro = 0;
  Minibatch forward = 0;
  Minibatch backward = 0;
  int forward_ahead = 0;
  int backward_ahead = 0;
  Label label = 0;
  bool operator==(const SerialUse&) const = default;
};

struct SerialSystem {
  const Model& model;
  Device& device;
  const Dataset& data;
  Sampler sampler;  // from minibatch 0 on
  std::uint64_t seed = 1;
  Plan plan;
  SerialOptimizer optimizer;
  SerialOptimizer stages_optimizer{};  // where the servers have `optimizer`
  std::vector<float> factors{};        // of virtual workers' pushes; of no concern without servers
  SerialWsp::Granted granted{};        // absent: pull = "bound"

  struct Result : SerialWsp::Result {
    std::vector<SerialUse> uses;  // of a played schedule: in the order of the B's
    // Of the first virtual worker's stages: weights after so many updates (run without servers),
    // and those that each F used.
    std::vector<std::vector<Floats>> versions;
    std::map<std::pair<int, Minibatch>, Floats> used;  // stage, minibatch (its first micro-batch)
  };
  // The program of the plan's composition (partitioner/plan/system.h).
  Result run() const;
};

// Schedules with a flush, sync = all_reduce: all F and B of minibatch p see the weights after p
// updates, so there is no schedule to play. Gradients are summed over micro-batches at each
// replica, then over (virtual worker, stage, replica) in this order.
SerialSystem::Result run_synchronous(const SerialSystem& system);

// Everything else: the virtual workers' schedules (partitioner/schedule/generate.h) played action
// by action. Covers flushes as well.
SerialSystem::Result run_played(const SerialSystem& system);

// Gradients of a virtual worker's stages, [stage][replica], as SerialStage::backward leaves them,
// become those of their own parameters. Parts of tied ones are added up from the last layer that
// uses one to its owner: s = last part; s += part before; ...; s += owner's. Where a stage between
// is replicated, that happens at each replica; replica r takes the sums of those replicas of the
// next stage that uses it whose number is r modulo its own stage's, in their order.
void add_uses(const std::vector<SerialStage>& stages, std::vector<std::vector<Floats>>& gradients);

// Sums of gradients by parameter, in the order in which they are added: s = first; s += next; ...
class SerialSums {
 public:
  // layout, gradient: of the same layers; an empty gradient is of zeros.
  void add(const ParameterLayout& layout, const Floats& gradient);
  // Of these layers, each of whose parameters has been added.
  Floats flat(const ParameterLayout& layout) const;

 private:
  std::map<std::string, Floats> sums_;
};

// What a gradient of the whole model is multiplied by to clip it globally (docs/training.md):
// min(1, X / (norm + 1e-6)), all of it in double. Squares are added within blocks of 4096 elements
// of a parameter, then block by block, then parameter by parameter; tied ones count once.
float global_clip_factor(const SerialOptimizer& optimizer, const ParameterLayout& layout,
                         const Floats& gradient);

// Per stage, the shares of replicas: the plan's, or equal ones of a micro-batch.
std::vector<SerialStage> stages_of(const SerialSystem& system, SerialLayers& layers, int worker);

// Samples of a minibatch over all virtual workers.
std::int64_t samples_of_round(const Sampler& sampler, Minibatch p);
// One past the last minibatch of any virtual worker.
Minibatch rounds_of(const Sampler& sampler);

// Running statistics of the whole model: running[worker][stage][replica], averaged over virtual
// workers and replicas by their samples of a whole round: s = f0 x0; s += f1 x1; ...
Floats mean_statistics(const SerialSystem& system,
                       const std::vector<std::vector<SerialStage>>& stages,
                       const std::vector<std::vector<std::vector<Floats>>>& running);
// Of one stage, over its replicas by their shares.
Floats mean_of_replicas(const SerialStage& stage, const std::vector<Floats>& running);

}  // namespace hetpipe
