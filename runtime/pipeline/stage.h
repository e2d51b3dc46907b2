// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/sample.h"
#include "kernels/buffer.h"
#include "partitioner/profile/cut.h"
#include "runtime/model/layer_groups.h"
#include "runtime/model/model.h"
#include "runtime/model/parameters.h"

namespace hetpipe {

// Tensors of one Transfer, packed in the transfer's layer order.
struct Packed {
  const Transfer* transfer = nullptr;
  Buffer data;
};

// One (micro-)batch passing through one stage: what forward leaves for backward. It may hold no
// sample at all: then nothing is computed, and gradients are zero.
struct Pass {
  std::int64_t samples = 0;
  // The loss is a mean over so many, those of other passes too; 0: over the pass.
  std::int64_t loss_samples = 0;
  double loss_weight = 0;        // as Batch::loss_weight
  std::int64_t predictions = 0;  // labels that are classes, of the pass
  float loss_scale = 1;          // of the gradients that go back from the loss
  std::vector<SampleKey> keys;
  Buffer images;  // (N, H, W, C), or tokens, where the stage reads samples
  Buffer labels;  // (N) int32 or as the loss reads them, where the stage holds the loss
  std::vector<Packed> activations_in;  // one per Stage::incoming()
  std::vector<Buffer> outputs;         // per layer of the stage; empty where it was written over,
                                       // or the layer was computed with the next in one go
  std::vector<Buffer> stashes;         // per layer: of the group that ends there
  Buffer correct;                      // (N) int32, where the stage holds the loss
  std::vector<Packed> gradients_in;    // one per Stage::outgoing(): arrived from later stages
  std::vector<Packed> gradients_out;   // one per Stage::incoming(): made by backward, which makes
                                       // memory for them if there is none
  // From backward to weight_gradient, where they are apart: of each group's output, by its last
  // layer, and where it lies (here, or in gradients_in).
  std::vector<Buffer> output_gradients;
  std::vector<std::byte*> output_gradient_at;
};

// Where a pass finds weights: flat, own and foreign parameters of the stage's layout
// (runtime/model/parameters.h).
struct StageWeights {
  const float* own = nullptr;
  const float* foreign = nullptr;
  StageWeights(const float* the_own) : own(the_own) {}  // NOLINT: most stages have no more
  StageWeights(const float* the_own, const float* the_foreign)
      : own(the_own), foreign(the_foreign) {}
};
// Where it leaves their gradients: of own parameters, and the parts that uses have in others'.
struct StageGradients {
  float* own = nullptr;
  float* uses = nullptr;
  StageGradients(float* the_own) : own(the_own) {}  // NOLINT
  StageGradients(float* the_own, float* the_uses) : own(the_own), uses(the_uses) {}
};

// Recomputation would update running statistics a second time.
enum class Statistics { update, leave };
// What happens to existing parameter gradients: of the first micro-batch of a minibatch,
// or added to those of the previous ones.
enum class Gradients { overwrite, accumulate };
// whole: both gradients. inputs: only that of the inputs; weight_gradient() makes the other.
enum class BackwardPart { whole, inputs };

// A slice of the model on a device: its layers' kernels, its parameters' layout, and which tensors
// cross its borders. Knows nothing of versions, waves or ranks.
class Stage {
 public:
  // stage_end as in partitioner/profile/cut.h. `seed` keys random draws.
  Stage(const Model& model, std::vector<int> stage_end, StageId id, std::uint64_t seed,
        Device& device, Stream& stream);

  StageId id() const { return id_; }
  int first_layer() const { return first_; }
  int end_layer() const { return end_; }
  bool reads_samples() const { return reads_samples_; }
  bool has_loss() const { return end_ == model_.layer_count(); }
  const Model& model() const { return model_; }
  Device& device() const { return device_; }
  Stream& stream() const { return stream_; }
  const ParameterLayout& parameters() const { return parameters_; }
  const ParameterLayout& statistics() const { return statistics_; }

  // Activations that arrive (gradients leave along the same ones), and those that leave.
  const std::vector<Transfer>& incoming() const { return incoming_; }
  const std::vector<Transfer>& outgoing() const { return outgoing_; }
  std::int64_t transfer_elements(const Transfer& transfer, std::int64_t samples) const;
  std::int64_t transfer_bytes(const Transfer& transfer, std::int64_t samples) const;  // here
  // Of the gradients that come back along it.
  std::int64_t gradient_elements(const Transfer& transfer, std::int64_t samples) const;
  std::int64_t gradient_bytes(const Transfer& transfer, std::int64_t samples) const;
  std::int64_t output_elements(int layer, std::int64_t samples) const;  // of any layer of the model
  ElementType element_type(int layer) const;                            // of its output here

  // Whenever a layer of a pass has been enqueued, which for all of a pass may take the host long.
  void between_layers(std::function<void()> then) { between_layers_ = std::move(then); }

  // Makes the kernels of a pass of so many samples, which a device may search long for; else the
  // first such pass does.
  void prepare(std::int64_t samples);
  // What its device computes in one operation in such a pass.
  const std::vector<LayerGroup>& groups(std::int64_t samples);

  // Computes all layers. `pass` holds samples, keys and activations_in; forward fills the rest.
  // statistics: flat, statistics(), updated in training. In Mode::evaluate nothing is kept but
  // outputs.
  void forward(Pass& pass, const StageWeights& weights, float* statistics, Mode mode,
               Statistics update = Statistics::update);
  // Tensors of an outgoing transfer, packed for sending as elements of `type`: of samples [first,
  // first + count) of the pass. Returns one past the last byte written.
  std::byte* pack_activations(const Pass& pass, const Transfer& transfer, std::int64_t first,
                              std::int64_t count, ElementType type, std::byte* to);
  // After the activations have been packed: gives back outputs that no backward of this stage
  // reads.
  void drop_what_backward_does_not_need(Pass& pass);
  // After the activations have been packed, where the forward will be computed again: keeps its
  // inputs alone.
  void drop_what_forward_makes(Pass& pass);
  // Gradients of the mean loss over Pass::loss_samples, and gradients_out. A tensor with several
  // consumers sums its gradients from the last consumer to the first, a group being one. Frees what
  // it used as it goes.
  void backward(Pass& pass, const StageWeights& weights, const StageGradients& gradients,
                BackwardPart part = BackwardPart::whole, Gradients mode = Gradients::overwrite);
  // After the last of backward() and weight_gradient(): gives back what came for them. What they
  // made, gradients_out, stays until it is sent.
  void drop_what_backward_read(Pass& pass);
  // After backward(inputs): the gradients of the parameters, the same bits as backward(whole)
  // gives.
  void weight_gradient(Pass& pass, const StageWeights& weights, const StageGradients& gradients,
                       Gradients mode);

 private:
  bool needed_in_backward(int layer, const std::vector<LayerGroup>& groups) const;
  const std::byte* activation(const Pass& pass, int layer) const;
  std::vector<const std::byte*> backward_inputs(const Pass& pass, const LayerGroup& group) const;
  std::int64_t bytes_of_output(int layer, std::int64_t samples) const;
  // The group's kernel writes its parameter gradients, or adds them through memory of its own.
  void run_backward(const LayerGroup& group, BackwardArguments arguments,
                    const StageGradients& gradients, Gradients mode);

  const Model& model_;
  StageId id_;
  int first_ = 0;
  int end_ = 0;
  bool reads_samples_ = false;
  std::uint64_t seed_;
  Device& device_;
  Stream& stream_;
  ParameterLayout parameters_;
  ParameterLayout statistics_;
  std::vector<Transfer> incoming_;
  std::vector<Transfer> outgoing_;
  std::vector<std::int64_t> sample_elements_;               // of every layer's output
  std::map<std::int64_t, std::vector<LayerGroup>> groups_;  // by samples
  std::function<void()> between_layers_;                    // may be empty
};

}  // namespace hetpipe
