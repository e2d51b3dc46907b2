// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/cuda/context.h"
#include "kernels/cuda/dnn/attention_graphs.h"
#include "kernels/element.h"
#include "kernels/layer.h"

// Self-attention by cuDNN's fused engines. x (N, T, 3F) and y (N, T, F) of bf16 or fp16; the stash
// is one fp32 number per row of scores, (N, heads, T), from which the backward pass computes the
// softmax again (it needs x and y). Where `supported()` is false (fp32, cards before 8.0, heads of
// an odd width) the caller goes through matrix products.
namespace hetpipe::cuda {

// Samples at a time: all, or as many as leave the gradients of their scores, two bytes each, which
// engines keep whose order is fixed, within what a plan may use, and room for what else it wants.
std::int64_t samples_at_once(const PlanOptions& options, const SelfAttention& spec,
                             const Shape& in);

class AttentionPlans {
 public:
  AttentionPlans(Context& context, const SelfAttention& spec, const Shape& in, Precision precision);

  bool supported();
  // Where a card that has fused engines has none for this.
  const std::string& why_not() const { return why_not_; }
  std::size_t stash_bytes() const;
  std::size_t forward_workspace();
  // Grows with T * T where deterministic gradients are asked for: the scores' gradients are kept.
  std::size_t backward_workspace();

  void forward(cudaStream_t stream, const void* x, void* y, float* stash, void* workspace);
  void backward(cudaStream_t stream, const void* x, const void* y, const float* stash,
                const void* dy, void* dx, void* workspace);

  std::shared_ptr<const Plan> forward_plan();
  std::shared_ptr<const Plan> backward_plan();

 private:
  std::size_t dq_bytes() const;  // of the sums that are not needed where deterministic

  Context& context_;
  AttentionSizes sizes_;
  Precision precision_;
  bool tried_ = false;
  std::string why_not_;
  std::shared_ptr<const Plan> forward_, backward_;
};

}  // namespace hetpipe::cuda
