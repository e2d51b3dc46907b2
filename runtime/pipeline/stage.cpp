// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/stage.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "runtime/model/model.h"
#include "runtime/pipeline/stage_parts.h"

namespace hetpipe {

using stage_parts::offset_in;
using stage_parts::statistics_pointers;
using stage_parts::weight_pointers;

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
  const int in_fp32 = model.layer_in_need_of_fp32();
  if (in_fp32 >= 0 && bytes_of(device.element_type()) < sizeof(float)) {
    throw UserError("--precision " + to_string(device.precision()),
                    "does not suit this model: its layer '" + model.layer(in_fp32).name +
                        "' computes with tokens, which two bytes do not hold. Give fp32 or, on "
                        "GPUs that have it, tf32.");
  }
  const std::vector<std::vector<int>> producers = model.producers();
  for (Transfer& transfer : transfers(producers, stage_end)) {
    if (transfer.to_stage == id.value) incoming_.push_back(transfer);
    if (transfer.from_stage == id.value) outgoing_.push_back(transfer);
  }
  for (int l = 0; l < model.layer_count(); ++l) {
    sample_elements_.push_back(model.output_shape(l, 1).elements());
  }
  for (int l = first_; l < end_; ++l) {
    const auto& inputs = model.layer(l).inputs;
    reads_samples_ |= std::find(inputs.begin(), inputs.end(), kSamples) != inputs.end();
  }
}

ElementType Stage::element_type(int layer) const {
  return output_type(model_, layer, device_.element_type());
}

std::int64_t Stage::output_elements(int layer, std::int64_t samples) const {
  return sample_elements_[at(layer)] * samples;
}

std::int64_t Stage::bytes_of_output(int layer, std::int64_t samples) const {
  return output_elements(layer, samples) * static_cast<std::int64_t>(bytes_of(element_type(layer)));
}

std::int64_t Stage::transfer_elements(const Transfer& transfer, std::int64_t samples) const {
  std::int64_t elements = 0;
  for (int layer : transfer.layers) elements += output_elements(layer, samples);
  return elements;
}

std::int64_t Stage::transfer_bytes(const Transfer& transfer, std::int64_t samples) const {
  return transfer_elements(transfer, samples) *
         static_cast<std::int64_t>(bytes_of(device_.element_type()));
}

std::int64_t Stage::gradient_elements(const Transfer& transfer, std::int64_t samples) const {
  std::int64_t elements = transfer_elements(transfer, samples);
  for (const int layer : transfer.more_gradients) elements += output_elements(layer, samples);
  return elements;
}

std::int64_t Stage::gradient_bytes(const Transfer& transfer, std::int64_t samples) const {
  return gradient_elements(transfer, samples) *
         static_cast<std::int64_t>(bytes_of(device_.element_type()));
}

const std::vector<LayerGroup>& Stage::groups(std::int64_t samples) {
  const auto found = groups_.find(samples);
  if (found != groups_.end()) return found->second;
  return groups_[samples] = make_groups(model_, first_, end_, samples, seed_, device_);
}

void Stage::prepare(std::int64_t samples) {
  if (samples == 0) return;
  for (const LayerGroup& group : groups(samples)) {
    group.kernel->prepare(std::any_of(group.inputs.begin(), group.inputs.end(),
                                      [](int input) { return input != kSamples; }));
  }
}

const std::byte* Stage::activation(const Pass& pass, int layer) const {
  if (layer == kSamples) return pass.images.data();
  if (layer >= first_) return pass.outputs[at(layer - first_)].data();
  for (const Packed& packed : pass.activations_in) {
    const std::int64_t offset =
        offset_in(*packed.transfer, layer, [&](int l) { return bytes_of_output(l, pass.samples); });
    if (offset >= 0) return packed.data.data() + offset;
  }
  ensure(false, "a layer's input did not arrive at its stage");
  return nullptr;
}

void Stage::forward(Pass& pass, const StageWeights& weights, float* statistics, Mode mode,
                    Statistics update) {
  const int layers = end_ - first_;
  pass.outputs.resize(at(layers));
  pass.stashes.resize(at(layers));
  if (pass.loss_samples == 0) pass.loss_samples = pass.samples;
  if (pass.samples == 0) return;
  for (const LayerGroup& group : groups(pass.samples)) {
    const int last = group.last();
    std::vector<const std::byte*> inputs;
    for (int input : group.inputs) inputs.push_back(activation(pass, input));
    Buffer& output = pass.outputs[at(last - first_)];
    if (group.in_place) {
      output = std::move(pass.outputs[at(group.inputs[*group.in_place] - first_)]);
    } else {
      output =
          Buffer(device_, stream_, static_cast<std::size_t>(bytes_of_output(last, pass.samples)),
                 MemoryKind::activations);
    }
    Buffer& stash = pass.stashes[at(last - first_)];
    if (mode == Mode::train) {
      stash = Buffer(device_, stream_, static_cast<std::size_t>(group.shapes.stash_bytes),
                     MemoryKind::activations);
    }
    const bool loss = group.end == model_.layer_count();
    if (loss) {
      pass.correct =
          Buffer(device_, stream_, static_cast<std::size_t>(pass.samples) * sizeof(std::int32_t),
                 MemoryKind::activations);
    }
    const auto parameters = weight_pointers(parameters_, group, weights);
    const auto running = statistics_pointers(statistics_, group, statistics);
    group.kernel->forward(
        stream_, {.inputs = inputs,
                  .parameters = parameters,
                  .statistics = running,
                  .output = output.data(),
                  .stash = stash.data(),
                  .mode = mode,
                  .samples = pass.keys,
                  .labels = pass.labels.as<std::int32_t>(),
                  .correct = pass.correct.as<std::int32_t>(),
                  .loss_weight = pass.loss_weight,
                  .update_statistics = mode == Mode::train && update == Statistics::update});
    if (between_layers_) between_layers_();
  }
}

// An output is kept for its own backward or for that of its consumers here.
bool Stage::needed_in_backward(int layer, const std::vector<LayerGroup>& groups) const {
  for (const LayerGroup& group : groups) {
    if (group.last() == layer && group.shapes.backward_needs_output) return true;
    for (std::size_t i = 0; i < group.inputs.size(); ++i) {
      if (group.inputs[i] == layer && group.read_in_backward[i]) return true;
    }
  }
  return false;
}

void Stage::drop_what_backward_does_not_need(Pass& pass) {
  if (pass.samples == 0) return;
  const std::vector<LayerGroup>& of_pass = groups(pass.samples);
  for (int l = first_; l < end_; ++l) {
    if (!needed_in_backward(l, of_pass)) pass.outputs[at(l - first_)] = Buffer();
  }
}

void Stage::drop_what_forward_makes(Pass& pass) {
  pass.outputs.clear();
  pass.stashes.clear();
  pass.correct = Buffer();
}

void Stage::drop_what_backward_read(Pass& pass) {
  pass.images = Buffer();
  pass.labels = Buffer();
  pass.correct = Buffer();
  pass.activations_in.clear();
  pass.gradients_in.clear();
  pass.outputs.clear();
  pass.stashes.clear();
}

std::byte* Stage::pack_activations(const Pass& pass, const Transfer& transfer, std::int64_t first,
                                   std::int64_t count, ElementType type, std::byte* to) {
  for (int layer : transfer.layers) {
    const std::byte* const from =
        pass.outputs[at(layer - first_)].data() + bytes_of_output(layer, first);
    const std::int64_t elements = output_elements(layer, count);
    const auto bytes = static_cast<std::size_t>(elements) * bytes_of(type);
    if (type == element_type(layer)) {
      device_.copy(stream_, to, from, bytes);
    } else {
      device_.convert(stream_, to, type, from, element_type(layer), elements);
    }
    to += bytes;
  }
  return to;
}

}  // namespace hetpipe
