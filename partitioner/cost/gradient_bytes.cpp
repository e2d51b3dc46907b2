// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/gradient_bytes.h"

namespace hetpipe {

GradientBytes::GradientBytes(const Profile& profile, const LayerCosts& costs)
    : GradientBytes(profile, costs, 0, static_cast<int>(profile.layers.size())) {}

GradientBytes::GradientBytes(const Profile& profile, const LayerCosts& costs, int first, int end)
    : output_(costs.output_bytes), scratch_(costs.scratch_bytes) {
  const std::size_t layers = output_.size();
  std::vector<std::size_t> from(layers);  // the first layer that no reader yet is behind
  std::vector<int> readers(layers, 0);
  std::vector<std::pair<std::size_t, Tensor>> passing;
  passing.reserve(layers);
  inputs_.tensors.reserve(layers);
  inputs_.begin.reserve(layers + 1);
  for (std::size_t l = 0; l < layers; ++l) {
    from[l] = l + 1;
    for (const int input : profile.layers[l].inputs) {
      const auto producer = static_cast<std::size_t>(input);
      const Tensor tensor{input, output_[producer], static_cast<int>(l)};
      for (; from[producer] < l; ++from[producer]) {
        if (input >= first && tensor.next_reader < end)
          passing.emplace_back(from[producer], tensor);
      }
      inputs_.tensors.push_back(tensor);
      ++readers[producer];
    }
    inputs_.begin.push_back(inputs_.tensors.size());
  }
  std::stable_sort(passing.begin(), passing.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto next_alone_reads = [&](std::size_t l) { return readers[l] == 1 && from[l] == l + 1; };
  auto at = passing.begin();
  passing_.tensors.reserve(passing.size());
  passing_.begin.reserve(layers + 1);
  for (std::size_t l = 0; l < layers; ++l) {
    for (; at != passing.end() && at->first == l; ++at) passing_.tensors.push_back(at->second);
    passing_.begin.push_back(passing_.tensors.size());
    apart_.push_back(profile.layers[l].gradients_apart);
    chained_.push_back(l > 0 && next_alone_reads(l - 1) &&
                       (readers[l] == 0 || next_alone_reads(l)));
  }
}

GradientBytes::OfLayer GradientBytes::of(int l, int first, int end) const {
  const auto at = static_cast<std::size_t>(l);
  std::int64_t beside = 0;
  for (const Tensor& tensor : passing(l)) {
    if (tensor.producer >= first && tensor.next_reader < end) beside += tensor.bytes;
  }
  std::int64_t made = 0;      // gradients of inputs, beside that of the output
  std::int64_t returned = 0;  // those that are messages
  for (const Tensor& input : inputs(l)) {
    if (input.producer < first) {
      returned += input.bytes;
    } else if (apart_[at]) {
      made += input.bytes;
    }
  }
  const bool last = l + 1 == end;
  if (measured()) {
    const std::int64_t there = beside + made + scratch_[at];
    if (!last) return {.known = output_[at] + there};
    return {.unknown = std::max(output_[at] - (l == first ? returned : 0), there)};
  }
  const std::int64_t here = output_[at] + std::min(output_[at], beside);
  if (!chained_[at] || l == first) made = 0;
  if (last) return {.unknown = std::max(here, made)};
  return {made > 0 ? here + made : 0, here};
}

GradientPeaks::Most GradientPeaks::of_layer(int l, int first, int end) const {
  const auto at = static_cast<std::size_t>(l);
  const GradientBytes::OfLayer bytes = gradients_.of(l, first, end);
  Most most;
  if (bytes.known == 0 || !gradients_.measured()) most.unknown = bytes.unknown;
  if (bytes.known > 0) most.known = bytes.known + kept_[at + 1];
  if (parameters_[at] > 0) {
    most.adding = std::max(bytes.known, bytes.unknown) + parameters_[at] + kept_[at + 1];
  }
  return most;
}

GradientPeaks::Most GradientPeaks::one_by_one(int first, int end) const {
  Most most;
  for (int l = first; l + 1 < end; ++l) most.raise(of_layer(l, first, end));
  return most;
}

namespace {

RunMaxima maxima_of(std::span<const GradientPeaks::Most> layers,
                    std::int64_t GradientPeaks::Most::*member) {
  std::vector<std::int64_t> values;
  values.reserve(layers.size());
  for (const GradientPeaks::Most& most : layers) values.push_back(most.*member);
  return RunMaxima(std::move(values));
}

}  // namespace

GradientPeaks::GradientPeaks(const Profile& profile, const LayerCosts& costs,
                             std::vector<std::int64_t> kept, std::vector<std::int64_t> parameters)
    : gradients_(profile, costs), kept_(std::move(kept)), parameters_(std::move(parameters)) {
  const int layers = gradients_.layers();
  // As if it were neither the first nor the last, and no tensor came from or went elsewhere.
  std::vector<Most> inside;
  inside.reserve(static_cast<std::size_t>(layers));
  for (int l = 0; l < layers; ++l) inside.push_back(of_layer(l, -1, layers + 1));
  unknown_ = maxima_of(inside, &Most::unknown);
  known_ = maxima_of(inside, &Most::known);
  adding_ = maxima_of(inside, &Most::adding);
  for (int first = 0; first <= layers; ++first) {
    front_.push_back({first + 1});
    back_.push_back({first - 1});
  }
  const auto comes_from_before = [&](int l, int producer) {
    for (int first = producer + 1; first < l; ++first) {
      Edge& edge = front_[static_cast<std::size_t>(first)];
      edge.bound = std::max(edge.bound, l + 1);
    }
  };
  for (int l = 0; l < layers; ++l) {
    for (const GradientBytes::Tensor& input : gradients_.inputs(l)) {
      comes_from_before(l, input.producer);
    }
    for (const GradientBytes::Tensor& tensor : gradients_.passing(l)) {
      comes_from_before(l, tensor.producer);
      for (int end = l + 2; end <= tensor.next_reader; ++end) {
        Edge& edge = back_[static_cast<std::size_t>(end)];
        edge.bound = std::min(edge.bound, l);
      }
    }
  }
  for (int cut = 0; cut <= layers; ++cut) {
    Edge& front = front_[static_cast<std::size_t>(cut)];
    for (int l = cut; l < std::min(front.bound, layers); ++l) {
      front.most.raise(of_layer(l, cut, layers + 1));
    }
    Edge& back = back_[static_cast<std::size_t>(cut)];
    for (int l = back.bound; l + 1 < cut; ++l) back.most.raise(of_layer(l, -1, cut));
  }
  for (int l = 0; l < layers; ++l) {
    Last last{l - 1};  // alone it is a stage of its own kind
    for (const GradientBytes::Tensor& input : gradients_.inputs(l)) {
      last.first_input = std::min(last.first_input, input.producer);
    }
    last.most = of_layer(l, -1, l + 1);
    last_.push_back(last);
  }
}

}  // namespace hetpipe
