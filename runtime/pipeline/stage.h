// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/ids.h"
#include "base/sample.h"
#include "kernels/buffer.h"
#include "partitioner/profile/cut.h"
#include "runtime/model/model.h"
#include "runtime/model/parameters.h"

namespace hetpipe {

// Tensors of one Transfer, packed in the transfer's layer order.
struct Packed {
  const Transfer* transfer = nullptr;
  Buffer data;
};

// One minibatch on its way through one stage: what forward leaves for backward.
struct Pass {
  std::int64_t samples = 0;
  std::vector<SampleKey> keys;
  Buffer images;                       // (N, H, W, C), where the stage reads samples
  Buffer labels;                       // (N) int32, where the stage holds the loss
  std::vector<Packed> activations_in;  // one per Stage::incoming()
  std::vector<Buffer> outputs;         // per layer of the stage; empty where it was written over
  std::vector<Buffer> stashes;
  Buffer correct;                     // (N) int32, where the stage holds the loss
  std::vector<Packed> gradients_in;   // one per Stage::outgoing(): arrived from later stages
  std::vector<Packed> gradients_out;  // one per Stage::incoming(): made by backward
};

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
  std::int64_t transfer_bytes(const Transfer& transfer, std::int64_t samples) const;

  // Computes all layers. `pass` holds samples, keys and activations_in; forward fills the rest.
  // weights: flat, parameters(); statistics: flat, statistics(), updated in training. In
  // Mode::evaluate nothing is kept but outputs.
  void forward(Pass& pass, const float* weights, float* statistics, Mode mode);
  // Tensors of an outgoing transfer, packed for sending.
  Buffer pack_activations(const Pass& pass, const Transfer& transfer);
  // After the activations have been packed: gives back outputs that no backward of this stage
  // reads.
  void drop_what_backward_does_not_need(Pass& pass);
  // Gradients of the mean loss over the minibatch, written flat in parameters() order, and
  // gradients_out. A tensor with several consumers sums its gradients from the last consumer to the
  // first. Frees what it used as it goes.
  void backward(Pass& pass, const float* weights, float* gradients);

 private:
  struct Kernels {
    std::vector<std::unique_ptr<LayerKernel>> kernels;
    std::vector<LayerShapes> shapes;
  };
  Kernels& kernels_for(std::int64_t samples);
  bool needed_in_backward(int layer, const Kernels& kernels) const;
  const float* activation(const Pass& pass, int layer) const;
  std::int64_t floats_of(int layer, std::int64_t samples) const;
  template <class T>
  std::vector<T*> parameter_pointers(const ParameterLayout& layout, int layer, T* flat) const;

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
  std::vector<bool> in_place_;  // per layer of the stage: forward writes over its first input
  std::map<std::int64_t, Kernels> kernels_;  // by samples
};

}  // namespace hetpipe
