// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/stage.h"

#include <algorithm>

#include "runtime/model/in_place.h"

namespace hetpipe {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Where the tensor of `layer` starts inside a packed transfer, in floats; -1 when it is not part of
// it.
template <class FloatsOf>
std::int64_t offset_in(const Transfer& transfer, int layer, FloatsOf floats_of) {
  std::int64_t offset = 0;
  for (int l : transfer.layers) {
    if (l == layer) return offset;
    offset += floats_of(l);
  }
  return -1;
}

}  // namespace

Stage::Stage(const Model& model, std::vector<int> stage_end, StageId id, std::uint64_t seed,
             Device& device, Stream& stream)
    : model_(model),
      id_(id),
      first_(id.value == 0 ? 0 : stage_end[at(id.value - 1)]),
      end_(stage_end[at(id.value)]),
      seed_(seed),
      device_(device),
      stream_(stream),
      parameters_(ParameterLayout::parameters(model, first_, end_)),
      statistics_(ParameterLayout::statistics(model, first_, end_)) {
  const std::vector<std::vector<int>> producers = model.producers();
  for (Transfer& transfer : transfers(producers, stage_end)) {
    if (transfer.to_stage == id.value) incoming_.push_back(transfer);
    if (transfer.from_stage == id.value) outgoing_.push_back(transfer);
  }
  for (int l = first_; l < end_; ++l) {
    const auto& inputs = model.layer(l).inputs;
    reads_samples_ |= std::find(inputs.begin(), inputs.end(), kSamples) != inputs.end();
    in_place_.push_back(forward_in_place(model, l, first_));
  }
}

std::int64_t Stage::floats_of(int layer, std::int64_t samples) const {
  return model_.shapes(layer, samples).output.elements();
}

std::int64_t Stage::transfer_bytes(const Transfer& transfer, std::int64_t samples) const {
  std::int64_t floats = 0;
  for (int layer : transfer.layers) floats += floats_of(layer, samples);
  return floats * static_cast<std::int64_t>(sizeof(float));
}

Stage::Kernels& Stage::kernels_for(std::int64_t samples) {
  const auto [found, inserted] = kernels_.try_emplace(samples);
  Kernels& kernels = found->second;
  if (!inserted) return kernels;
  for (int l = first_; l < end_; ++l) {
    kernels.kernels.push_back(device_.make_kernel(
        model_.layer(l).spec, model_.input_shapes(l, samples), layer_key(model_.layer(l), seed_)));
    kernels.shapes.push_back(model_.shapes(l, samples));
  }
  return kernels;
}

const float* Stage::activation(const Pass& pass, int layer) const {
  if (layer == kSamples) return pass.images.as<float>();
  if (layer >= first_) return pass.outputs[at(layer - first_)].as<float>();
  for (const Packed& packed : pass.activations_in) {
    const std::int64_t offset =
        offset_in(*packed.transfer, layer, [&](int l) { return floats_of(l, pass.samples); });
    if (offset >= 0) return packed.data.as<float>() + offset;
  }
  ensure(false, "a layer's input did not arrive at its stage");
  return nullptr;
}

template <class T>
std::vector<T*> Stage::parameter_pointers(const ParameterLayout& layout, int layer, T* flat) const {
  std::vector<T*> pointers;
  for (const ParameterEntry& entry : layout.of_layer(layer))
    pointers.push_back(flat + entry.offset);
  return pointers;
}

void Stage::forward(Pass& pass, const float* weights, float* statistics, Mode mode) {
  Kernels& kernels = kernels_for(pass.samples);
  const int layers = end_ - first_;
  pass.outputs.resize(at(layers));
  pass.stashes.resize(at(layers));
  for (int l = first_; l < end_; ++l) {
    const LayerShapes& shapes = kernels.shapes[at(l - first_)];
    std::vector<const float*> inputs;
    for (int input : model_.layer(l).inputs) inputs.push_back(activation(pass, input));
    Buffer& output = pass.outputs[at(l - first_)];
    if (in_place_[at(l - first_)]) {
      output = std::move(pass.outputs[at(model_.layer(l).inputs.front() - first_)]);
    } else {
      output = Buffer(device_, stream_,
                      static_cast<std::size_t>(shapes.output.elements()) * sizeof(float),
                      MemoryKind::activations);
    }
    if (mode == Mode::train) {
      pass.stashes[at(l - first_)] = Buffer(
          device_, stream_, static_cast<std::size_t>(shapes.stash_bytes), MemoryKind::activations);
    }
    const bool loss = l + 1 == model_.layer_count();
    if (loss) {
      pass.correct =
          Buffer(device_, stream_, static_cast<std::size_t>(pass.samples) * sizeof(std::int32_t),
                 MemoryKind::activations);
    }
    const auto parameters = parameter_pointers(parameters_, l, weights);
    const auto running = parameter_pointers(statistics_, l, statistics);
    kernels.kernels[at(l - first_)]->forward(stream_, {.inputs = inputs,
                                                       .parameters = parameters,
                                                       .statistics = running,
                                                       .output = output.as<float>(),
                                                       .stash = pass.stashes[at(l - first_)].data(),
                                                       .mode = mode,
                                                       .samples = pass.keys,
                                                       .labels = pass.labels.as<std::int32_t>(),
                                                       .correct = pass.correct.as<std::int32_t>(),
                                                       .update_statistics = mode == Mode::train});
  }
}

// An output is kept for its own backward or for that of its consumers here.
bool Stage::needed_in_backward(int layer, const Kernels& kernels) const {
  if (kernels.shapes[at(layer - first_)].backward_needs_output) return true;
  for (int l = layer + 1; l < end_; ++l) {
    const auto& inputs = model_.layer(l).inputs;
    if (kernels.shapes[at(l - first_)].backward_needs_input &&
        std::find(inputs.begin(), inputs.end(), layer) != inputs.end()) {
      return true;
    }
  }
  return false;
}

void Stage::drop_what_backward_does_not_need(Pass& pass) {
  const Kernels& kernels = kernels_for(pass.samples);
  for (int l = first_; l < end_; ++l) {
    if (!needed_in_backward(l, kernels)) pass.outputs[at(l - first_)] = Buffer();
  }
}

Buffer Stage::pack_activations(const Pass& pass, const Transfer& transfer) {
  Buffer packed(device_, stream_, static_cast<std::size_t>(transfer_bytes(transfer, pass.samples)),
                MemoryKind::messages);
  std::byte* to = packed.data();
  for (int layer : transfer.layers) {
    const Buffer& output = pass.outputs[at(layer - first_)];
    device_.copy(stream_, to, output.data(), output.bytes());
    to += output.bytes();
  }
  return packed;
}

void Stage::backward(Pass& pass, const float* weights, float* gradients) {
  Kernels& kernels = kernels_for(pass.samples);
  const auto count = [&](int l) { return floats_of(l, pass.samples); };

  // Where each tensor's gradient is summed up: null until its last consumer has written it.
  std::map<int, float*> target;
  std::vector<Buffer> own(at(end_ - first_));
  for (auto packed = pass.gradients_in.rbegin(); packed != pass.gradients_in.rend(); ++packed) {
    for (int layer : packed->transfer->layers) {
      float* arrived = packed->data.as<float>() + offset_in(*packed->transfer, layer, count);
      float*& sum = target[layer];
      if (sum == nullptr) {
        sum = arrived;
      } else {
        device_.add(stream_, sum, arrived, count(layer));
      }
    }
  }
  pass.gradients_out.clear();
  for (const Transfer& transfer : incoming_) {
    pass.gradients_out.push_back(
        {&transfer,
         Buffer(device_, stream_, static_cast<std::size_t>(transfer_bytes(transfer, pass.samples)),
                MemoryKind::messages)});
  }
  const auto fresh = [&](int layer) -> float* {  // memory for a gradient not written yet
    if (layer >= first_) {
      Buffer& buffer = own[at(layer - first_)];
      buffer = Buffer(device_, stream_, static_cast<std::size_t>(count(layer)) * sizeof(float),
                      MemoryKind::workspace);
      return buffer.as<float>();
    }
    for (Packed& packed : pass.gradients_out) {
      const std::int64_t offset = offset_in(*packed.transfer, layer, count);
      if (offset >= 0) return packed.data.as<float>() + offset;
    }
    ensure(false, "a gradient without a way back");
    return nullptr;
  };

  for (int l = end_ - 1; l >= first_; --l) {
    const LayerShapes& shapes = kernels.shapes[at(l - first_)];
    const bool loss = l + 1 == model_.layer_count();
    ensure(loss || target[l] != nullptr, "a layer whose output nobody uses");
    std::vector<const float*> inputs;
    std::vector<float*> input_gradients;
    struct Addition {
      int layer;
      Buffer term;
    };
    std::vector<Addition> additions;
    for (int input : model_.layer(l).inputs) {
      inputs.push_back(shapes.backward_needs_input ? activation(pass, input) : nullptr);
      // Nobody reads the output's gradient after this.
      const bool in_place = shapes.backward_in_place && input_gradients.empty() &&
                            input >= first_ && target[input] == nullptr && own[at(l - first_)];
      if (input == kSamples) {
        input_gradients.push_back(nullptr);
      } else if (in_place) {
        own[at(input - first_)] = std::move(own[at(l - first_)]);
        target[input] = target[l];
        input_gradients.push_back(target[l]);
      } else if (float*& sum = target[input]; sum == nullptr) {
        sum = fresh(input);
        input_gradients.push_back(sum);
      } else {
        additions.push_back(
            {input, Buffer(device_, stream_, static_cast<std::size_t>(count(input)) * sizeof(float),
                           MemoryKind::workspace)});
        input_gradients.push_back(additions.back().term.as<float>());
      }
    }
    const auto parameters = parameter_pointers(parameters_, l, weights);
    const auto parameter_gradients = parameter_pointers(parameters_, l, gradients);
    kernels.kernels[at(l - first_)]->backward(stream_,
                                              {.inputs = inputs,
                                               .output = pass.outputs[at(l - first_)].as<float>(),
                                               .output_gradient = loss ? nullptr : target[l],
                                               .parameters = parameters,
                                               .stash = pass.stashes[at(l - first_)].data(),
                                               .input_gradients = input_gradients,
                                               .parameter_gradients = parameter_gradients,
                                               .samples = pass.keys,
                                               .labels = pass.labels.as<std::int32_t>(),
                                               .loss_samples = pass.samples});
    for (const Addition& addition : additions) {
      device_.add(stream_, target[addition.layer], addition.term.as<float>(),
                  count(addition.layer));
    }
    own[at(l - first_)] = Buffer();
    pass.outputs[at(l - first_)] = Buffer();
    pass.stashes[at(l - first_)] = Buffer();
  }
}

}  // namespace hetpipe
