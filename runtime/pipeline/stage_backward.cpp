// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/index.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/stage_parts.h"

namespace hetpipe {

using stage_parts::offset_in;
using stage_parts::parameter_pointers;

void Stage::run_backward(int layer, Kernels& kernels, BackwardArguments arguments, float* gradients,
                         Gradients mode) {
  LayerKernel& kernel = *kernels.kernels[at(layer - first_)];
  const auto entries = parameters_.of_layer(layer);
  if (gradients == nullptr || entries.empty()) {
    kernel.backward(stream_, arguments);
    return;
  }
  const std::int64_t first = entries.front().offset;
  const std::int64_t count = entries.back().offset + entries.back().count - first;
  Buffer own;
  float* of_layer = gradients + first;
  if (mode == Gradients::accumulate) {
    own = Buffer(device_, stream_, static_cast<std::size_t>(count) * sizeof(float),
                 MemoryKind::workspace);
    of_layer = own.as<float>();
  }
  std::vector<float*> pointers;
  for (const ParameterEntry& entry : entries) pointers.push_back(of_layer + (entry.offset - first));
  arguments.parameter_gradients = pointers;
  kernel.backward(stream_, arguments);
  if (own) device_.add(stream_, gradients + first, own.as<float>(), count);
}

void Stage::backward(Pass& pass, const float* weights, float* gradients, BackwardPart part,
                     Gradients mode) {
  const auto bytes = [&](int l) { return bytes_of_output(l, pass.samples); };
  const auto count = [&](int l) { return output_elements(l, pass.samples); };
  pass.gradients_out.clear();
  for (const Transfer& transfer : incoming_) {
    pass.gradients_out.push_back(
        {&transfer,
         Buffer(device_, stream_, static_cast<std::size_t>(transfer_bytes(transfer, pass.samples)),
                MemoryKind::messages)});
  }
  if (pass.samples == 0) {
    if (part == BackwardPart::whole) weight_gradient(pass, weights, gradients, mode);
    return;
  }
  Kernels& kernels = kernels_for(pass.samples);

  // Where each tensor's gradient is summed up: null until its last consumer has written it.
  std::map<int, std::byte*> target;
  std::vector<Buffer> own(at(end_ - first_));
  for (auto packed = pass.gradients_in.rbegin(); packed != pass.gradients_in.rend(); ++packed) {
    for (int layer : packed->transfer->layers) {
      std::byte* arrived = packed->data.data() + offset_in(*packed->transfer, layer, bytes);
      std::byte*& sum = target[layer];
      if (sum == nullptr) {
        sum = arrived;
      } else {
        device_.accumulate(stream_, sum, arrived, count(layer));
      }
    }
  }
  const auto fresh = [&](int layer) -> std::byte* {  // memory for a gradient not written yet
    if (layer >= first_) {
      Buffer& buffer = own[at(layer - first_)];
      buffer =
          Buffer(device_, stream_, static_cast<std::size_t>(bytes(layer)), MemoryKind::workspace);
      return buffer.data();
    }
    for (Packed& packed : pass.gradients_out) {
      const std::int64_t offset = offset_in(*packed.transfer, layer, bytes);
      if (offset >= 0) return packed.data.data() + offset;
    }
    ensure(false, "a gradient without a way back");
    return nullptr;
  };

  const bool apart = part == BackwardPart::inputs;
  if (apart) {
    pass.output_gradients.resize(at(end_ - first_));
    pass.output_gradient_at.assign(at(end_ - first_), nullptr);
  }
  for (int l = end_ - 1; l >= first_; --l) {
    const LayerShapes& shapes = kernels.shapes[at(l - first_)];
    const bool loss = l + 1 == model_.layer_count();
    const bool kept = apart && !parameters_.of_layer(l).empty();  // for weight_gradient()
    ensure(loss || target[l] != nullptr, "a layer whose output nobody uses");
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> input_gradients;
    struct Addition {
      int layer;
      Buffer term;
    };
    std::vector<Addition> additions;
    for (int input : model_.layer(l).inputs) {
      inputs.push_back(shapes.backward_needs_input ? activation(pass, input) : nullptr);
      // Nobody reads the output's gradient after this.
      const bool in_place = shapes.backward_in_place && !kept && input_gradients.empty() &&
                            input >= first_ && target[input] == nullptr && own[at(l - first_)];
      if (input == kSamples) {
        input_gradients.push_back(nullptr);
      } else if (in_place) {
        own[at(input - first_)] = std::move(own[at(l - first_)]);
        target[input] = target[l];
        input_gradients.push_back(target[l]);
      } else if (std::byte*& sum = target[input]; sum == nullptr) {
        sum = fresh(input);
        input_gradients.push_back(sum);
      } else {
        additions.push_back({input, Buffer(device_, stream_, static_cast<std::size_t>(bytes(input)),
                                           MemoryKind::workspace)});
        input_gradients.push_back(additions.back().term.data());
      }
    }
    const auto parameters = parameter_pointers(parameters_, l, weights);
    const bool wanted = std::any_of(input_gradients.begin(), input_gradients.end(),
                                    [](const std::byte* gradient) { return gradient != nullptr; });
    if (wanted || !apart) {
      run_backward(l, kernels,
                   {.inputs = inputs,
                    .output = pass.outputs[at(l - first_)].data(),
                    .output_gradient = loss ? nullptr : target[l],
                    .parameters = parameters,
                    .stash = pass.stashes[at(l - first_)].data(),
                    .input_gradients = input_gradients,
                    .parameter_gradients = {},
                    .samples = pass.keys,
                    .labels = pass.labels.as<std::int32_t>(),
                    .loss_samples = pass.loss_samples,
                    .loss_scale = pass.loss_scale},
                   apart ? nullptr : gradients, mode);
    }
    for (const Addition& addition : additions) {
      device_.accumulate(stream_, target[addition.layer], addition.term.data(),
                         count(addition.layer));
    }
    if (kept) {
      pass.output_gradient_at[at(l - first_)] = target[l];
      pass.output_gradients[at(l - first_)] = std::move(own[at(l - first_)]);
      continue;
    }
    own[at(l - first_)] = Buffer();
    pass.stashes[at(l - first_)] = Buffer();
    if (!apart) pass.outputs[at(l - first_)] = Buffer();
  }
}

void Stage::weight_gradient(Pass& pass, const float* weights, float* gradients, Gradients mode) {
  if (pass.samples == 0) {
    if (mode == Gradients::overwrite && parameters_.count() > 0) {
      device_.fill(stream_, gradients, 0, parameters_.count());
    }
    return;
  }
  Kernels& kernels = kernels_for(pass.samples);
  for (int l = end_ - 1; l >= first_; --l) {
    const std::byte* output_gradient = pass.output_gradient_at[at(l - first_)];
    if (output_gradient != nullptr) {
      std::vector<const std::byte*> inputs;
      for (int input : model_.layer(l).inputs) {
        inputs.push_back(kernels.shapes[at(l - first_)].backward_needs_input
                             ? activation(pass, input)
                             : nullptr);
      }
      const auto parameters = parameter_pointers(parameters_, l, weights);
      run_backward(l, kernels,
                   {.inputs = inputs,
                    .output = pass.outputs[at(l - first_)].data(),
                    .output_gradient = output_gradient,
                    .parameters = parameters,
                    .stash = pass.stashes[at(l - first_)].data(),
                    .input_gradients = {},
                    .parameter_gradients = {},
                    .samples = pass.keys,
                    .labels = pass.labels.as<std::int32_t>(),
                    .loss_samples = pass.loss_samples,
                    .loss_scale = pass.loss_scale},
                   gradients, mode);
    }
    pass.output_gradients[at(l - first_)] = Buffer();
    pass.outputs[at(l - first_)] = Buffer();
    pass.stashes[at(l - first_)] = Buffer();
  }
}

}  // namespace hetpipe
