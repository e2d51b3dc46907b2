// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_stage.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/index.h"
#include "tests/end-to-end/serial_masking.h"

namespace hetpipe {
namespace {

// The part of a flat array that belongs to a layer.
template <class T>
std::span<T> of_layer(const ParameterLayout& layout, int layer, std::span<T> flat) {
  const std::span<const ParameterEntry> entries = layout.of_layer(layer);
  if (entries.empty()) return {};
  const std::int64_t begin = entries.front().offset;
  return flat.subspan(at(begin), at(entries.back().offset + entries.back().count - begin));
}

}  // namespace

std::vector<SerialMicroBatch> micro_batches_of(const Dataset& data, const Sampler& sampler,
                                               SampleRange minibatch, int count) {
  std::vector<SerialMicroBatch> micros(at(count));
  std::int64_t position = minibatch.first;
  for (int m = 0; m < count; ++m) {
    SerialMicroBatch& micro = micros[at(m)];
    Floats& images = micro.values[kSamples];
    const int size = minibatch.count / count + (m < minibatch.count % count ? 1 : 0);
    for (int i = 0; i < size; ++i) {
      const SampleKey key = sampler.key(position);
      images.resize(images.size() + at(data.sample_values()));
      data.copy_sample(key, &images[images.size() - at(data.sample_values())]);
      micro.samples.keys.push_back(key);
      const std::vector<std::int32_t> labels = data.labels_of(key.index);
      micro.samples.labels.insert(micro.samples.labels.end(), labels.begin(), labels.end());
      if (data.mask_token) {
        mask_serially(sampler.seed(), key, *data.mask_token,
                      std::span(images).last(at(data.sample_values())),
                      std::span(micro.samples.labels).last(labels.size()));
      }
      if (data.mixes.any()) {
        micro.samples.mixed.push_back(mix_serially(
            data, sampler, position, std::span(images).last(at(data.sample_values()))));
      }
      ++position;
    }
  }
  return micros;
}

SerialStage::SerialStage(SerialLayers& layers, int first, int end, std::vector<int> shares)
    : layers_(layers),
      first_(first),
      end_(end),
      shares_(std::move(shares)),
      parameters_(ParameterLayout::parameters(layers.model(), first, end)),
      statistics_(ParameterLayout::statistics(layers.model(), first, end)) {}

bool SerialStage::uses_foreign(const std::string& name) const {
  const auto& foreign = parameters_.foreign();
  return std::any_of(foreign.begin(), foreign.end(),
                     [&](const ForeignParameter& one) { return one.name == name; });
}

// A layer's parameters in its own order, whoever owns them.
Floats SerialStage::weights_of(int layer, const Floats& weights,
                               const SerialForeign& foreign) const {
  Floats all;
  for (const ParameterEntry& entry : parameters_.of_layer(layer)) {
    const std::int64_t here = entry.is_own() ? entry.offset : parameters_.owner_offset(entry);
    const float* from = here >= 0 ? weights.data() + here : foreign.at(entry.name).data();
    all.insert(all.end(), from, from + entry.count);
  }
  return all;
}

std::vector<SerialPass> SerialStage::forward(SerialMicroBatch& micro, const Floats& weights,
                                             std::vector<Floats>& statistics,
                                             const SerialForeign& foreign) {
  const std::int64_t all = std::accumulate(shares_.begin(), shares_.end(), std::int64_t{0});
  std::vector<SerialPass> passes(shares_.size());
  std::int64_t before = 0;
  for (std::size_t r = 0; r < shares_.size(); ++r) {
    SerialPass& pass = passes[r];
    pass.first = static_cast<int>(micro.size() * before / all);
    before += shares_[r];
    const int end = static_cast<int>(micro.size() * before / all);
    if (pass.first == end) continue;
    const auto cut = [&](const auto& of, std::int64_t each) {
      return std::vector(of.begin() + pass.first * each, of.begin() + end * each);
    };
    pass.samples = {cut(micro.samples.keys, 1),
                    cut(micro.samples.labels, layers_.model().labels_per_sample()),
                    {}};
    if (!micro.samples.mixed.empty()) pass.samples.mixed = cut(micro.samples.mixed, 1);
    for (int l = first_; l < end_; ++l) {
      for (const int input : layers_.model().layer(l).inputs) {
        if (input < first_) pass.inputs[input] = slice(input, micro.values.at(input), pass);
      }
    }
    compute(pass, weights, foreign, statistics[r]);
    for (const auto& [layer, kept] : pass.layers) {
      put(layer, kept.output, pass, micro, micro.values[layer]);
    }
    if (end_ == layers_.model().layer_count()) {
      const Floats& losses = pass.layers.at(end_ - 1).output;
      micro.losses.insert(micro.losses.end(), losses.begin(), losses.end());
    }
  }
  return passes;
}

void SerialStage::recompute(std::vector<SerialPass>& passes, const Floats& weights,
                            const SerialForeign& foreign) {
  for (SerialPass& pass : passes) {
    Floats unused(at(statistics_.count()));
    if (!pass.samples.keys.empty()) compute(pass, weights, foreign, unused);
  }
}

void SerialStage::backward(SerialMicroBatch& micro, const std::vector<SerialPass>& passes,
                           const Floats& weights, std::int64_t loss_samples,
                           std::vector<Floats>& gradients, const SerialForeign& foreign) {
  // What consumers in later stages have left here. Contributions of this stage to the outputs of
  // earlier ones go to a copy: every replica has its own samples of it.
  std::map<int, Floats> sums = micro.gradients;
  for (std::size_t r = 0; r < passes.size(); ++r) {
    const SerialPass& pass = passes[r];
    if (pass.samples.keys.empty()) continue;
    std::map<int, Floats> sum;  // by producer
    for (const auto& [layer, whole] : micro.gradients) {
      if (layer < end_) sum[layer] = slice(layer, whole, pass);
    }
    Floats gradient(at(gradient_count()));
    for (int l = end_ - 1; l >= first_; --l) {
      const bool loss = l + 1 == layers_.model().layer_count();
      const SerialLayers::Gradients of =
          layers_.backward(l, inputs_of(l, pass), pass.layers.at(l), loss ? nullptr : &sum.at(l),
                           weights_of(l, weights, foreign), pass.samples, loss_samples);
      auto part = of.parameters.begin();
      for (const ParameterEntry& entry : parameters_.of_layer(l)) {
        const std::int64_t begin = entry.offset + (entry.is_own() ? 0 : parameters_.count());
        std::copy_n(part, entry.count, gradient.begin() + begin);
        part += entry.count;
      }
      // Consumers come in descending order: the last one's contribution starts the sum.
      const std::vector<int>& producers = layers_.model().layer(l).inputs;
      for (std::size_t i = 0; i < producers.size(); ++i) {
        if (producers[i] == kSamples) continue;
        const auto [found, first] = sum.try_emplace(producers[i], of.inputs[i]);
        if (!first) add(found->second, of.inputs[i]);
      }
    }
    for (const auto& [layer, part] : sum) put(layer, part, pass, micro, sums[layer]);
    if (gradients[r].empty()) {
      gradients[r] = std::move(gradient);
    } else {
      add(gradients[r], gradient);
    }
  }
  micro.gradients = std::move(sums);
}

void SerialStage::compute(SerialPass& pass, const Floats& weights, const SerialForeign& foreign,
                          Floats& statistics) {
  for (int l = first_; l < end_; ++l) {
    pass.layers[l] = layers_.forward(l, inputs_of(l, pass), weights_of(l, weights, foreign),
                                     of_layer<float>(statistics_, l, statistics), pass.samples);
  }
}

std::vector<const Floats*> SerialStage::inputs_of(int layer, const SerialPass& pass) const {
  std::vector<const Floats*> inputs;
  for (const int input : layers_.model().layer(layer).inputs) {
    inputs.push_back(input < first_ ? &pass.inputs.at(input) : &pass.layers.at(input).output);
  }
  return inputs;
}

namespace {

std::int64_t values_of_sample(const Model& model, int layer) {
  return layer == kSamples ? model.batch_shape(1).elements()
                           : model.output_shape(layer, 1).elements();
}

}  // namespace

Floats SerialStage::slice(int layer, const Floats& whole, const SerialPass& pass) const {
  const std::int64_t values = values_of_sample(layers_.model(), layer);
  const auto begin = whole.begin() + pass.first * values;
  return {begin, begin + std::ssize(pass.samples.keys) * values};
}

void SerialStage::put(int layer, const Floats& part, const SerialPass& pass,
                      const SerialMicroBatch& micro, Floats& whole) const {
  const std::int64_t values = values_of_sample(layers_.model(), layer);
  whole.resize(at(micro.size() * values));
  std::copy(part.begin(), part.end(), whole.begin() + pass.first * values);
}

}  // namespace hetpipe
