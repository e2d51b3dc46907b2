// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "kernels/cuda/context.h"
#include "kernels/element.h"
#include "kernels/layer.h"

// Batch normalisation in training by cuDNN: one kernel that keeps what it has read on the chip
// between statistics and normalisation. x, y, dx, dy (N, H, W, C) or (N, C) of T; scale, shift,
// statistics and their gradients (C) fp32. Engines exist where a pixel's channels fill whole 16
// bytes; where `supported()` is false the caller has kernels of its own, as it has for inference.
namespace hetpipe::cuda {

class BatchNormPlans {
 public:
  BatchNormPlans(Context& context, const BatchNorm& spec, const Shape& in, Precision precision);

  // Both passes. False too for a batch of one row, whose variance has no unbiased form.
  bool supported();
  std::size_t forward_workspace();
  std::size_t backward_workspace();

  struct ForwardMemory {
    const void* x;
    const float* scale;
    const float* shift;
    void* y;
    float* mean;               // written: the batch's
    float* inverse_deviation;  // written: 1/sqrt(variance + epsilon)
    // Updated as the layer says; both null: left alone (re-computation).
    float* running_mean = nullptr;
    float* running_variance = nullptr;
    void* workspace = nullptr;
  };
  void forward(cudaStream_t stream, const ForwardMemory& memory);

  // All three gradients are written; for those that nobody wants the caller gives memory.
  struct BackwardMemory {
    const void* x;
    const void* dy;
    const float* scale;
    const float* mean;
    const float* inverse_deviation;
    void* dx;
    float* dscale;
    float* dshift;
    void* workspace = nullptr;
  };
  void backward(cudaStream_t stream, const BackwardMemory& memory);

  std::shared_ptr<const Plan> forward_plan(bool update_statistics);
  std::shared_ptr<const Plan> backward_plan();

 private:
  Layout x() const;
  std::shared_ptr<const Graph> forward_graph(bool update_statistics) const;
  std::shared_ptr<const Graph> backward_graph() const;
  // Where the new running statistics are written before they replace the old ones.
  std::size_t statistics_bytes() const;

  Context& context_;
  BatchNorm spec_;
  std::int64_t images_, rows_, columns_, channels_;
  Precision precision_;
  cudnnDataType_t type_;
  bool tried_ = false;
  std::shared_ptr<const Plan> updating_, plain_, backward_;
};

}  // namespace hetpipe::cuda
