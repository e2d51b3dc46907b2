// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/buffer.h"
#include "kernels/device.h"
#include "partitioner/profile/matrices.h"

namespace hetpipe {

// Makes the change of a weight matrix orthogonal, or nearly so: of d = U S V^T, U V^T, whose
// directions are all as long. By kOrthogonalSteps steps of the iteration of Newton and Schulz from
// d / |d| (Jordan et al., "Muon", 2024, with its coefficients; PyTorch's torch.optim.Muon), of the
// smaller side m and the larger side n:
//   A = X X^T;  B = b A + c A A;  X = a X + B X       X (m, n), or its transpose
// computed as q = (c / b) A A + A and X = a X + b q X. Products in the device's element type.
class Orthogonalizer {
 public:
  static constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;

  // Of matrices (rows, columns), row-major.
  Orthogonalizer(Device& device, Stream& stream, std::int64_t rows, std::int64_t columns);

  // d = factor U V^T; zeros stay zeros. Enqueued.
  void apply(float* d, float factor);

 private:
  void multiply(LayerKernel& kernel, const std::byte* left, const std::byte* right, std::byte* out);

  Device& device_;
  Stream& stream_;
  std::int64_t count_;
  std::int64_t side_;  // m
  std::unique_ptr<LayerKernel> gram_, square_, step_;
  Buffer squares_;  // 1, and the change's
};

// What a change whose directions are all as long is multiplied by, so that its root mean square is
// that of Adam's steps: 0.2 sqrt(max(rows, columns)) (Liu et al., arXiv 2502.16982, section 2.2).
float orthogonal_scale(std::int64_t rows, std::int64_t columns);

}  // namespace hetpipe
