// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/gradient_bytes.h"

#include <algorithm>
#include <utility>

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

}  // namespace hetpipe
