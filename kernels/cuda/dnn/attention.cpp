// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/dnn/attention.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "kernels/cuda/dnn/planner.h"

namespace hetpipe::cuda {
namespace {

// The part of a packed row (3F) that starts `parts` times F behind its beginning.
void* part_of(const void* memory, std::int64_t features, int parts) {
  constexpr std::int64_t kBytes = 2;  // bf16 and fp16 alone come here
  return const_cast<std::byte*>(static_cast<const std::byte*>(memory)) +  // NOLINT: only read
         features * parts * kBytes;
}

}  // namespace

std::int64_t samples_at_once(const PlanOptions& options, const SelfAttention& spec,
                             const Shape& in) {
  if (!options.deterministic) return in[0];
  const std::int64_t of_sample = std::int64_t{2} * spec.heads * in[1] * in[1];
  const auto limit = static_cast<std::int64_t>(options.workspace / 8 * 7);
  const std::int64_t most = std::max<std::int64_t>(1, limit / of_sample);
  const std::int64_t pieces = (in[0] + most - 1) / most;
  return (in[0] + pieces - 1) / pieces;
}

AttentionPlans::AttentionPlans(Context& context, const SelfAttention& spec, const Shape& in,
                               Precision precision)
    : context_(context),
      sizes_{in[0], in[1], in[2] / 3, spec.heads, spec.causal, dnn_type(element_of(precision))},
      precision_(precision) {}

bool AttentionPlans::supported() {
  if (element_of(precision_) == ElementType::fp32 || context_.card().major < 8) return false;
  if (sizes_.width() % 8 != 0) {
    why_not_ = format("heads have %lld columns, and must start at multiples of 16 bytes",
                      static_cast<long long>(sizes_.width()));
    return false;
  }
  if (!tried_) {
    tried_ = true;
    forward_ = try_make_plan(context_, attention_forward_graph(sizes_), precision_, why_not_);
    if (forward_ != nullptr) {
      backward_ = try_make_plan(context_,
                                attention_backward_graph(sizes_, context_.options().deterministic),
                                precision_, why_not_);
    }
  }
  return forward_ != nullptr && backward_ != nullptr;
}

std::shared_ptr<const Plan> AttentionPlans::forward_plan() {
  if (forward_ == nullptr) {
    forward_ = make_plan(context_, attention_forward_graph(sizes_), precision_);
  }
  return forward_;
}
std::shared_ptr<const Plan> AttentionPlans::backward_plan() {
  if (backward_ == nullptr) {
    backward_ = make_plan(
        context_, attention_backward_graph(sizes_, context_.options().deterministic), precision_);
  }
  return backward_;
}

std::size_t AttentionPlans::stash_bytes() const {
  return static_cast<std::size_t>(sizes_.batch * sizes_.heads * sizes_.tokens) * sizeof(float);
}
std::size_t AttentionPlans::dq_bytes() const {
  return context_.options().deterministic
             ? 0
             : aligned(static_cast<std::size_t>(sizes_.batch * sizes_.tokens * sizes_.features) *
                       sizeof(float));
}
std::size_t AttentionPlans::forward_workspace() { return forward_plan()->workspace(); }
std::size_t AttentionPlans::backward_workspace() {
  return aligned(stash_bytes()) + dq_bytes() + backward_plan()->workspace();
}

void AttentionPlans::forward(cudaStream_t stream, const void* x, void* y, float* stash,
                             void* workspace) {
  const std::array<void*, 5> memories = {part_of(x, sizes_.features, 0),
                                         part_of(x, sizes_.features, 1),
                                         part_of(x, sizes_.features, 2), y, stash};
  forward_plan()->run(context_.dnn(), stream, memories, workspace);
}

void AttentionPlans::backward(cudaStream_t stream, const void* x, const void* y, const float* stash,
                              const void* dy, void* dx, void* workspace) {
  auto* const sums = static_cast<std::byte*>(workspace);
  std::byte* const dq_sums = sums + aligned(stash_bytes());
  const std::int64_t f = sizes_.features;
  std::vector<void*> memories = {part_of(x, f, 0),       part_of(x, f, 1),
                                 part_of(x, f, 2),       mutable_pointer(y),
                                 mutable_pointer(stash), mutable_pointer(dy),
                                 part_of(dx, f, 0),      part_of(dx, f, 1),
                                 part_of(dx, f, 2),      sums};
  if (dq_bytes() > 0) memories.push_back(dq_sums);
  backward_plan()->run(context_.dnn(), stream, memories, dq_sums + dq_bytes());
}

}  // namespace hetpipe::cuda
