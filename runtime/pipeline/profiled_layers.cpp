// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/profiled_layers.h"

#include <algorithm>

#include "runtime/pipeline/time_updates.h"

namespace hetpipe {
namespace {

std::int64_t bytes_each(ElementType type) { return static_cast<std::int64_t>(bytes_of(type)); }

const LayerShapes& of(const std::vector<LayerShapes>& shapes, int layer) {
  return shapes[static_cast<std::size_t>(layer)];
}

// Whether a layer's output waits for the backward of a layer that reads it.
bool kept_for_readers(const Model& model, const std::vector<LayerShapes>& shapes, int layer) {
  for (int l = layer + 1; l < model.layer_count(); ++l) {
    const std::vector<int>& inputs = model.layer(l).inputs;
    for (std::size_t input = 0; input < inputs.size(); ++input) {
      if (inputs[input] == layer && reads_in_backward(of(shapes, l), input)) return true;
    }
  }
  return false;
}

// Whether a layer's output waits for a backward, its own or that of a layer that reads it, in
// memory of its own: no other layer writes over it.
bool keeps_output(const Model& model, const std::vector<LayerShapes>& shapes, int layer) {
  return of(shapes, layer).backward_needs_output || kept_for_readers(model, shapes, layer);
}

// The samples that a stage reads wait there as well; the first layer that reads them answers for
// them.
std::int64_t samples_bytes(const Model& model, int layer, int batch, ElementType activations) {
  for (int l = 0; l <= layer; ++l) {
    const std::vector<int>& inputs = model.layer(l).inputs;
    if (std::find(inputs.begin(), inputs.end(), kSamples) == inputs.end()) continue;
    return l == layer
               ? bytes_each(sample_type(model, activations)) * model.batch_shape(batch).elements()
               : 0;
  }
  return 0;
}

std::int64_t output_bytes(const Model& model, const std::vector<LayerShapes>& shapes, int layer,
                          ElementType activations) {
  return of(shapes, layer).output.elements() * bytes_each(output_type(model, layer, activations));
}

}  // namespace

ProfileLayer profiled_layer(const Model& model, const std::vector<LayerShapes>& shapes, int layer) {
  const LayerShapes of_sample = model.shapes(layer, 1);
  ProfileLayer row;
  row.name = model.layer(layer).name;
  row.inputs = model.producers()[static_cast<std::size_t>(layer)];
  const std::vector<SharedParameter>& shares = model.layer(layer).shares;
  if (!shares.empty()) row.shares = model.layer(shares.front().owner).name;
  for (const ParameterShape& p : of_sample.parameters) {
    row.parameter_bytes += 4 * p.shape.elements();
  }
  for (const DampedMatrix& matrix : matrices_of(model, layer)) {
    row.matrices.push_back({matrix.rows, matrix.columns});
  }
  row.kept_for_readers =
      !of(shapes, layer).backward_needs_output && kept_for_readers(model, shapes, layer);
  row.gradients_apart = !row.inputs.empty() && !of(shapes, layer).backward_in_place;
  row.forward_flops = of_sample.forward_flops;
  row.backward_flops = of_sample.backward_flops;
  for (const Shape& input : model.input_shapes(layer, 1)) {
    row.input_bytes += 4.0 * static_cast<double>(input.elements());
  }
  return row;
}

std::int64_t kept_bytes(const Model& model, const std::vector<LayerShapes>& shapes, int layer,
                        int batch, ElementType activations) {
  return samples_bytes(model, layer, batch, activations) +
         (keeps_output(model, shapes, layer) ? output_bytes(model, shapes, layer, activations)
                                             : 0) +
         of(shapes, layer).stash_bytes;
}

Profile unmeasured_profile(const Model& model) {
  model.check_complete();
  std::vector<LayerShapes> shapes;
  for (int l = 0; l < model.layer_count(); ++l) shapes.push_back(model.shapes(l, 1));
  Profile profile;
  profile.model = model.name();
  for (int l = 0; l < model.layer_count(); ++l) {
    ProfileLayer& row = profile.layers.emplace_back(profiled_layer(model, shapes, l));
    row.output_bytes = static_cast<double>(output_bytes(model, shapes, l, ElementType::fp32));
    row.stash_bytes = static_cast<double>(kept_bytes(model, shapes, l, 1, ElementType::fp32));
  }
  return profile;
}

}  // namespace hetpipe
