// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/dnn/batch_norm.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/dnn/planner.h"

namespace hetpipe::cuda {
namespace {

void* mutable_pointer(const void* memory) { return const_cast<void*>(memory); }  // NOLINT

}  // namespace

BatchNormPlans::BatchNormPlans(Context& context, const BatchNorm& spec, const Shape& in,
                               Precision precision)
    : context_(context),
      spec_(spec),
      images_(in[0]),
      rows_(in.rank() == 4 ? in[1] : 1),
      columns_(in.rank() == 4 ? in[2] : 1),
      channels_(in[in.rank() - 1]),
      precision_(precision),
      type_(dnn_type(element_of(precision))) {}

Layout BatchNormPlans::x() const {
  return channels_last(type_, images_, channels_, rows_, columns_);
}

std::shared_ptr<const Graph> BatchNormPlans::forward_graph(bool update_statistics) const {
  auto graph = std::make_shared<Graph>("batch norm");
  const auto statistics = [&] { return graph->memory(per_channel(channels_)); };
  Graph::NormForward norm{};
  norm.x = graph->memory(x());
  norm.scale = statistics();
  norm.shift = statistics();
  norm.y = graph->memory(x());
  norm.mean = statistics();
  norm.inverse_deviation = statistics();
  norm.epsilon = graph->constant(spec_.epsilon);
  if (update_statistics) {
    Graph::NormForward::Running running{};
    running.mean = statistics();
    running.variance = statistics();
    running.next_mean = statistics();
    running.next_variance = statistics();
    running.momentum = graph->constant(spec_.momentum);
    norm.running = running;
  }
  graph->batch_norm_training(norm);
  return graph;
}

std::shared_ptr<const Graph> BatchNormPlans::backward_graph() const {
  auto graph = std::make_shared<Graph>("batch norm backward");
  const auto statistics = [&] { return graph->memory(per_channel(channels_)); };
  Graph::NormBackward norm{};
  norm.x = graph->memory(x());
  norm.dy = graph->memory(x());
  norm.scale = statistics();
  norm.mean = statistics();
  norm.inverse_deviation = statistics();
  norm.dx = graph->memory(x());
  norm.dscale = statistics();
  norm.dshift = statistics();
  norm.epsilon = graph->constant(spec_.epsilon);
  graph->batch_norm_backward(norm);
  return graph;
}

bool BatchNormPlans::supported() {
  const std::int64_t bytes =
      channels_ * static_cast<std::int64_t>(bytes_of(element_of(precision_)));
  if (images_ * rows_ * columns_ < 2 || bytes % 16 != 0) return false;
  if (!tried_) {
    tried_ = true;
    std::string reason;
    backward_ = try_make_plan(context_, backward_graph(), precision_, reason);
    if (backward_ != nullptr) {
      updating_ = try_make_plan(context_, forward_graph(true), precision_, reason);
    }
  }
  return updating_ != nullptr && backward_ != nullptr;
}

std::shared_ptr<const Plan> BatchNormPlans::forward_plan(bool update_statistics) {
  std::shared_ptr<const Plan>& plan = update_statistics ? updating_ : plain_;
  if (plan == nullptr) plan = make_plan(context_, forward_graph(update_statistics), precision_);
  return plan;
}

std::shared_ptr<const Plan> BatchNormPlans::backward_plan() {
  if (backward_ == nullptr) backward_ = make_plan(context_, backward_graph(), precision_);
  return backward_;
}

std::size_t BatchNormPlans::statistics_bytes() const {
  return aligned(static_cast<std::size_t>(channels_) * sizeof(float));
}

std::size_t BatchNormPlans::forward_workspace() {
  return std::max(forward_plan(true)->workspace() + 2 * statistics_bytes(),
                  forward_plan(false)->workspace());
}
std::size_t BatchNormPlans::backward_workspace() { return backward_plan()->workspace(); }

void BatchNormPlans::forward(cudaStream_t stream, const ForwardMemory& m) {
  if (m.running_mean == nullptr) {
    const std::array memories = {mutable_pointer(m.x),     mutable_pointer(m.scale),
                                 mutable_pointer(m.shift), m.y,
                                 mutable_pointer(m.mean),  mutable_pointer(m.inverse_deviation)};
    forward_plan(false)->run(context_.dnn(), stream, memories, m.workspace);
    return;
  }
  // The library does not say that new statistics may take the place of old ones.
  auto* const next_mean = static_cast<std::byte*>(m.workspace);
  std::byte* const next_variance = next_mean + statistics_bytes();
  const std::array<void*, 10> memories = {mutable_pointer(m.x),
                                          mutable_pointer(m.scale),
                                          mutable_pointer(m.shift),
                                          m.y,
                                          m.mean,
                                          m.inverse_deviation,
                                          m.running_mean,
                                          m.running_variance,
                                          next_mean,
                                          next_variance};
  forward_plan(true)->run(context_.dnn(), stream, memories, next_variance + statistics_bytes());
  const std::size_t bytes = static_cast<std::size_t>(channels_) * sizeof(float);
  check(cudaMemcpyAsync(m.running_mean, next_mean, bytes, cudaMemcpyDeviceToDevice, stream),
        "keeping a batch norm's running mean");
  check(cudaMemcpyAsync(m.running_variance, next_variance, bytes, cudaMemcpyDeviceToDevice, stream),
        "keeping a batch norm's running variance");
}

void BatchNormPlans::backward(cudaStream_t stream, const BackwardMemory& m) {
  const std::array<void*, 8> memories = {mutable_pointer(m.x),
                                         mutable_pointer(m.dy),
                                         mutable_pointer(m.scale),
                                         mutable_pointer(m.mean),
                                         mutable_pointer(m.inverse_deviation),
                                         m.dx,
                                         m.dscale,
                                         m.dshift};
  backward_plan()->run(context_.dnn(), stream, memories, m.workspace);
}

}  // namespace hetpipe::cuda
