// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "base/hash.h"

namespace hetpipe {
namespace {

std::map<std::string, std::string> attributes_of(const Checkpoint& c, WithExact exact) {
  std::map<std::string, std::string> all{
      {"model", c.model},
      {"model_fingerprint", to_hex(c.model_fingerprint)},
      {"system", c.system},
      {"precision", c.precision},
      {"minibatches", std::to_string(c.minibatches)},
      {"worker_minibatches", std::to_string(c.minibatches_of_worker())},
      {"label", std::to_string(c.label)},
      {"sampler/seed", std::to_string(c.sampler.seed)},
      {"sampler/dataset_size", std::to_string(c.sampler.dataset_size)},
      {"sampler/dataset_fingerprint", to_hex(c.sampler.dataset_fingerprint)},
      {"sampler/consumed", std::to_string(c.sampler.consumed)},
      {"optimizer/name", c.optimizer},
      {"optimizer/step", std::to_string(c.optimizer_step)}};
  if (exact == WithExact::no || !c.exact) return all;
  for (const auto& [name, value] : c.exact->numbers) all["exact/" + name] = std::to_string(value);
  return all;
}

void compare_values(const NamedTensor& a, const NamedTensor& b, double tolerance,
                    TensorDifference& difference) {
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const float x = a.values[i];
    const float y = b.values[i];
    if (std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y)) continue;
    double absolute = 0;
    double relative = 0;
    if (!(x == y)) {  // 0 and -0 differ in their bits alone
      absolute = std::abs(static_cast<double>(x) - static_cast<double>(y));
      relative =
          absolute / std::max(std::abs(static_cast<double>(x)), std::abs(static_cast<double>(y)));
      if (!std::isfinite(relative)) {
        absolute = relative = std::numeric_limits<double>::infinity();
      }
    }
    if (tolerance > 0 && relative <= tolerance) continue;
    ++difference.differing;
    difference.absolute = std::max(difference.absolute, absolute);
    difference.relative = std::max(difference.relative, relative);
  }
}

}  // namespace

CheckpointDifference compare_checkpoints(const Checkpoint& first, const Checkpoint& second,
                                         WithExact exact, double tolerance) {
  CheckpointDifference difference;
  const auto a = attributes_of(first, exact);
  const auto b = attributes_of(second, exact);
  auto names = a;
  names.insert(b.begin(), b.end());
  for (const auto& [name, unused] : names) {
    const auto of_a = a.find(name);
    const auto of_b = b.find(name);
    const std::string left = of_a == a.end() ? "missing" : of_a->second;
    const std::string right = of_b == b.end() ? "missing" : of_b->second;
    if (left != right) difference.attributes.push_back({name, left, right});
  }

  std::map<std::string, std::pair<const NamedTensor*, const NamedTensor*>> pairs;
  for (const PathTensor& t : tensors_of(first)) pairs[t.path].first = t.tensor;
  for (const PathTensor& t : tensors_of(second)) pairs[t.path].second = t.tensor;
  for (const auto& [path, pair] : pairs) {
    using Kind = TensorDifference::Kind;
    if (exact == WithExact::no && path.starts_with("exact/")) continue;
    const auto [x, y] = pair;
    TensorDifference one{path, Kind::values, value_count(x != nullptr ? *x : *y), 0, 0, 0};
    if (x == nullptr || y == nullptr) {
      one.kind = x == nullptr ? Kind::only_second : Kind::only_first;
    } else if (x->shape != y->shape || x->order != y->order) {
      one.kind = Kind::shape;
    } else {
      compare_values(*x, *y, tolerance, one);
      if (one.differing == 0) continue;
    }
    difference.tensors.push_back(one);
  }
  return difference;
}

}  // namespace hetpipe
