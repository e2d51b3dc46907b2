// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The weight matrices of a layer, and what some optimizers need for changing them.
namespace hetpipe {

struct MatrixSides {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool operator==(const MatrixSides&) const = default;
};

// Whose update: of an optimizer that damps the changes of matrices as usual (--damping in
// kUsualDirections, where weights are not predicted), of one that makes them orthogonal, or of any
// other.
enum class Updates { plain, damped, orthogonal };

inline constexpr int kUsualDirections = 6;
// Times that they read or write the matrix (kernels/cuda/own/damping.h).
inline constexpr int kDampingPasses = 5 * kUsualDirections;

// Rows that its sums down columns take together (kernels/damping.h).
inline constexpr std::int64_t kDampingRows = 64;

// Steps of the iteration of Newton and Schulz (runtime/pipeline/orthogonal.h).
inline constexpr int kOrthogonalSteps = 5;
// Of its products, all steps.
double orthogonal_flops(const MatrixSides& matrix);

// Bytes beside the change itself while it is damped or made orthogonal; `narrow`: in products of
// elements of two bytes.
std::int64_t scratch_bytes(const MatrixSides& matrix, Updates updates, bool narrow);

}  // namespace hetpipe
