// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/index.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/stage_parts.h"

namespace hetpipe {

using stage_parts::offset_in;
using stage_parts::weight_pointers;

std::vector<const std::byte*> Stage::backward_inputs(const Pass& pass,
                                                     const LayerGroup& group) const {
  std::vector<const std::byte*> inputs;
  for (std::size_t i = 0; i < group.inputs.size(); ++i) {
    inputs.push_back(group.read_in_backward[i] ? activation(pass, group.inputs[i]) : nullptr);
  }
  return inputs;
}

void Stage::run_backward(const LayerGroup& group, BackwardArguments arguments,
                         const StageGradients& gradients, Gradients mode) {
  LayerKernel& kernel = *group.kernel;
  const auto entries = parameters_.of_layers(group.first, group.end);
  if (entries.empty() || (gradients.own == nullptr && gradients.uses == nullptr)) {
    kernel.backward(stream_, arguments);
    if (between_layers_) between_layers_();
    return;
  }
  struct Range {  // of the group, in one of the arrays
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  Range own, uses;
  for (const ParameterEntry& entry : entries) {
    Range& range = entry.is_own() ? own : uses;
    if (range.count == 0) range.first = entry.offset;
    range.count += entry.count;
  }
  float* to_own = gradients.own + own.first;
  float* to_uses = gradients.uses + uses.first;
  Buffer added;
  if (mode == Gradients::accumulate) {
    added =
        Buffer(device_, stream_, static_cast<std::size_t>(own.count + uses.count) * sizeof(float),
               MemoryKind::workspace);
    to_own = added.as<float>();
    to_uses = to_own + own.count;
  }
  std::vector<float*> pointers;
  for (const ParameterEntry& entry : entries) {
    pointers.push_back(entry.is_own() ? to_own + (entry.offset - own.first)
                                      : to_uses + (entry.offset - uses.first));
  }
  arguments.parameter_gradients = pointers;
  kernel.backward(stream_, arguments);
  if (between_layers_) between_layers_();
  if (!added) return;
  if (own.count > 0) device_.add(stream_, gradients.own + own.first, to_own, own.count);
  if (uses.count > 0) device_.add(stream_, gradients.uses + uses.first, to_uses, uses.count);
}

void Stage::backward(Pass& pass, const StageWeights& weights, const StageGradients& gradients,
                     BackwardPart part, Gradients mode) {
  const auto bytes = [&](int l) { return bytes_of_output(l, pass.samples); };
  const auto count = [&](int l) { return output_elements(l, pass.samples); };
  if (pass.gradients_out.empty()) {
    for (const Transfer& transfer : incoming_) {
      const auto size = static_cast<std::size_t>(gradient_bytes(transfer, pass.samples));
      pass.gradients_out.push_back(
          {&transfer, Buffer(device_, stream_, size, MemoryKind::messages)});
    }
  }
  if (pass.samples == 0) {
    if (part == BackwardPart::whole) weight_gradient(pass, weights, gradients, mode);
    return;
  }
  const std::vector<LayerGroup>& of_pass = groups(pass.samples);

  // Where each tensor's gradient is summed up: null until its last consumer has written it.
  std::map<int, std::byte*> target;
  std::vector<Buffer> own(at(end_ - first_));
  for (auto packed = pass.gradients_in.rbegin(); packed != pass.gradients_in.rend(); ++packed) {
    std::byte* arrived = packed->data.data();
    for (const auto* layers : {&packed->transfer->layers, &packed->transfer->more_gradients}) {
      for (const int layer : *layers) {
        std::byte*& sum = target[layer];
        if (sum == nullptr) {
          sum = arrived;
        } else {
          device_.accumulate(stream_, sum, arrived, count(layer));
        }
        arrived += bytes(layer);
      }
    }
  }
  // Of a tensor of an earlier stage: where the gradient by one of its consumers here goes, counted
  // from the last; null: it is added to the one before.
  const auto on_its_way_back = [&](int layer, int number) -> std::byte* {
    for (Packed& packed : pass.gradients_out) {
      const std::int64_t offset = offset_in(*packed.transfer, layer, bytes, number);
      if (offset >= 0) return packed.data.data() + offset;
    }
    return nullptr;
  };
  std::map<int, int> written;                        // of such tensors: gradients so far
  const auto fresh = [&](int layer) -> std::byte* {  // memory for a gradient not written yet
    if (layer >= first_) {
      Buffer& buffer = own[at(layer - first_)];
      buffer =
          Buffer(device_, stream_, static_cast<std::size_t>(bytes(layer)), MemoryKind::workspace);
      return buffer.data();
    }
    std::byte* const place = on_its_way_back(layer, 0);
    ensure(place != nullptr, "a gradient without a way back");
    return place;
  };

  const bool apart = part == BackwardPart::inputs;
  if (apart) {
    pass.output_gradients.resize(at(end_ - first_));
    pass.output_gradient_at.assign(at(end_ - first_), nullptr);
  }
  for (auto group = of_pass.rbegin(); group != of_pass.rend(); ++group) {
    const int last = group->last();
    const bool loss = group->end == model_.layer_count();
    const bool kept =  // for weight_gradient()
        apart && !parameters_.of_layers(group->first, group->end).empty();
    ensure(loss || target[last] != nullptr, "a layer whose output is not used");
    std::vector<std::byte*> input_gradients;
    struct Addition {
      int layer;
      Buffer term;
    };
    std::vector<Addition> additions;
    for (std::size_t i = 0; i < group->inputs.size(); ++i) {
      const int input = group->inputs[i];
      // Nobody reads the output's gradient after this.
      const bool in_place = group->shapes.backward_in_place && !kept &&
                            i == group->shapes.in_place_input && input >= first_ &&
                            target[input] == nullptr && own[at(last - first_)];
      if (input == kSamples) {
        input_gradients.push_back(nullptr);
      } else if (in_place) {
        own[at(input - first_)] = std::move(own[at(last - first_)]);
        target[input] = target[last];
        input_gradients.push_back(target[last]);
      } else if (std::byte*& sum = target[input]; sum == nullptr) {
        sum = fresh(input);
        input_gradients.push_back(sum);
      } else if (std::byte* const place =
                     input < first_ ? on_its_way_back(input, ++written[input]) : nullptr) {
        input_gradients.push_back(place);
      } else {
        additions.push_back({input, Buffer(device_, stream_, static_cast<std::size_t>(bytes(input)),
                                           MemoryKind::workspace)});
        input_gradients.push_back(additions.back().term.data());
      }
    }
    const bool wanted = std::any_of(input_gradients.begin(), input_gradients.end(),
                                    [](const std::byte* gradient) { return gradient != nullptr; });
    if (wanted || !apart) {
      const auto inputs = backward_inputs(pass, *group);
      const auto parameters = weight_pointers(parameters_, *group, weights);
      run_backward(*group,
                   {.inputs = inputs,
                    .output = pass.outputs[at(last - first_)].data(),
                    .output_gradient = loss ? nullptr : target[last],
                    .parameters = parameters,
                    .stash = pass.stashes[at(last - first_)].data(),
                    .input_gradients = input_gradients,
                    .parameter_gradients = {},
                    .samples = pass.keys,
                    .labels = pass.labels.as<std::int32_t>(),
                    .loss_samples = pass.loss_samples,
                    .loss_weight = pass.loss_weight,
                    .loss_scale = pass.loss_scale},
                   apart ? StageGradients(nullptr) : gradients, mode);
    }
    for (const Addition& addition : additions) {
      device_.accumulate(stream_, target[addition.layer], addition.term.data(),
                         count(addition.layer));
    }
    if (kept) {
      pass.output_gradient_at[at(last - first_)] = target[last];
      pass.output_gradients[at(last - first_)] = std::move(own[at(last - first_)]);
      continue;
    }
    own[at(last - first_)] = Buffer();
    pass.stashes[at(last - first_)] = Buffer();
    if (!apart) pass.outputs[at(last - first_)] = Buffer();
  }
}

void Stage::weight_gradient(Pass& pass, const StageWeights& weights,
                            const StageGradients& gradients, Gradients mode) {
  if (pass.samples == 0) {
    if (mode == Gradients::accumulate) return;
    if (parameters_.count() > 0) device_.fill(stream_, gradients.own, 0, parameters_.count());
    if (parameters_.use_count() > 0) {
      device_.fill(stream_, gradients.uses, 0, parameters_.use_count());
    }
    return;
  }
  const std::vector<LayerGroup>& of_pass = groups(pass.samples);
  for (auto group = of_pass.rbegin(); group != of_pass.rend(); ++group) {
    const int last = group->last();
    if (!parameters_.of_layers(group->first, group->end).empty()) {
      const auto inputs = backward_inputs(pass, *group);
      const auto parameters = weight_pointers(parameters_, *group, weights);
      run_backward(*group,
                   {.inputs = inputs,
                    .output = pass.outputs[at(last - first_)].data(),
                    .output_gradient = pass.output_gradient_at[at(last - first_)],
                    .parameters = parameters,
                    .stash = pass.stashes[at(last - first_)].data(),
                    .input_gradients = {},
                    .parameter_gradients = {},
                    .samples = pass.keys,
                    .labels = pass.labels.as<std::int32_t>(),
                    .loss_samples = pass.loss_samples,
                    .loss_weight = pass.loss_weight,
                    .loss_scale = pass.loss_scale},
                   gradients, mode);
    }
    pass.output_gradients[at(last - first_)] = Buffer();
    pass.outputs[at(last - first_)] = Buffer();
    pass.stashes[at(last - first_)] = Buffer();
  }
}

}  // namespace hetpipe
