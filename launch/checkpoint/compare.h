// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/checkpoint/files.h"

// The differences of two checkpoints: a value, for text, JSON and tests.
namespace hetpipe {

struct AttributeDifference {
  std::string name;
  std::string first;
  std::string second;
  bool operator==(const AttributeDifference&) const = default;
};

struct TensorDifference {
  enum class Kind { values, shape, only_first, only_second };
  std::string path;
  Kind kind = Kind::values;
  std::int64_t values = 0;     // of the tensor
  std::int64_t differing = 0;  // of them
  double absolute = 0;         // the largest |a - b|; infinite where only one is not a number
  double relative = 0;         // the largest |a - b| / max(|a|, |b|)
  bool operator==(const TensorDifference&) const = default;
};

struct CheckpointDifference {
  std::vector<AttributeDifference> attributes;
  std::vector<TensorDifference> tensors;
  bool none() const { return attributes.empty() && tensors.empty(); }
};

// Two values differ when their bits do and, with a tolerance above 0, when they are relatively
// further apart than that. Exact states are compared if `exact` asks for it.
CheckpointDifference compare_checkpoints(const Checkpoint& first, const Checkpoint& second,
                                         WithExact exact, double tolerance);

}  // namespace hetpipe
