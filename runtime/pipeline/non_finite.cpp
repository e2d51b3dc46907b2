// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/non_finite.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text.h"
#include "kernels/host_device.h"
#include "runtime/model/model.h"

namespace hetpipe {
namespace {

struct Found {
  std::int64_t index;
  double value;
};

std::optional<Found> find_in(const Stage& stage, const std::byte* values, ElementType type,
                             std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * bytes_of(type));
  stage.device().copy(stage.stream(), bytes.data(), values, bytes.size());
  stage.stream().synchronize();
  std::vector<float> host(static_cast<std::size_t>(count));
  convert_elements(reinterpret_cast<std::byte*>(host.data()), ElementType::fp32, bytes.data(), type,
                   count);
  const auto at = std::find_if(host.begin(), host.end(), [](float v) { return !std::isfinite(v); });
  if (at == host.end()) return std::nullopt;
  return Found{at - host.begin(), static_cast<double>(*at)};
}

// "(nan, sample 3 of the minibatch)" for a tensor of `count` floats, samples first.
std::string place(const Found& found, std::int64_t count, std::int64_t samples) {
  return format(" (%g, sample %lld of the minibatch)", found.value,
                static_cast<long long>(found.index / (count / samples)));
}

}  // namespace

std::optional<NonFinite> first_non_finite(const Stage& stage, const Pass& pass,
                                          const StageWeights& weights) {
  const Model& model = stage.model();
  if (stage.reads_samples()) {
    const ElementType type = sample_type(model, stage.device().element_type());
    const auto count = static_cast<std::int64_t>(pass.images.bytes() / bytes_of(type));
    if (const auto found = find_in(stage, pass.images.data(), type, count)) {
      return NonFinite{"the data" + place(*found, count, pass.samples), {}};
    }
  }
  for (const Packed& packed : pass.activations_in) {
    const std::byte* values = packed.data.data();
    const ElementType type = stage.device().element_type();
    for (const int layer : packed.transfer->layers) {
      const std::int64_t count = model.shapes(layer, pass.samples).output.elements();
      if (const auto found = find_in(stage, values, type, count)) {
        return NonFinite{"the output of layer " + model.layer(layer).name +
                             place(*found, count, pass.samples) +
                             format(", as received from stage %d", packed.transfer->from_stage),
                         packed.transfer->from_stage};
      }
      values += static_cast<std::size_t>(count) * bytes_of(type);
    }
  }
  int unseen =
      stage.first_layer();  // outputs from here on are gone: a later layer took their place
  for (int layer = stage.first_layer(); layer < stage.end_layer(); ++layer) {
    for (const ParameterEntry& entry : stage.parameters().of_layer(layer)) {
      const float* values = stage.parameters().weight_of(entry, weights.own, weights.foreign);
      if (const auto found = find_in(stage, reinterpret_cast<const std::byte*>(values),
                                     ElementType::fp32, entry.count)) {
        return NonFinite{format("parameter %s of layer %s (%g, from an earlier update)",
                                entry.name.c_str(), model.layer(layer).name.c_str(), found->value),
                         {}};
      }
    }
    const Buffer& output = pass.outputs[static_cast<std::size_t>(layer - stage.first_layer())];
    if (output.bytes() == 0) continue;
    const ElementType type = stage.element_type(layer);
    const auto count = static_cast<std::int64_t>(output.bytes() / bytes_of(type));
    if (const auto found = find_in(stage, output.data(), type, count)) {
      const std::string from = unseen < layer ? model.layer(unseen).name + ".." : "";
      return NonFinite{"the output of layer " + from + model.layer(layer).name +
                           place(*found, count, pass.samples),
                       {}};
    }
    unseen = layer + 1;
  }
  return std::nullopt;
}

}  // namespace hetpipe
