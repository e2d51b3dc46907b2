// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/dnn/convolution.h"

#include <array>

#include "kernels/cuda/dnn/planner.h"
#include "kernels/window.h"

namespace hetpipe::cuda {
namespace {

ConvolutionWindow dnn_window(const Window& w) {
  return {.padding = {w.rows.padding, w.columns.padding},
          .stride = {w.rows.stride, w.columns.stride},
          .padding_end = {w.rows.padding_end, w.columns.padding_end},
          .dilation = {w.rows.dilation, w.columns.dilation}};
}

}  // namespace

ConvolutionPlans::ConvolutionPlans(Context& context, const Convolution& spec, const Shape& in,
                                   Precision precision, Activation after)
    : context_(context),
      spec_(spec),
      in_(in),
      out_(window_of(spec).output(in, spec.output_channels)),
      precision_(precision),
      type_(dnn_type(element_of(precision))),
      after_(after),
      window_(dnn_window(window_of(spec))) {}

Layout ConvolutionPlans::x() const { return channels_last(type_, in_[0], in_[3], in_[1], in_[2]); }
Layout ConvolutionPlans::y(cudnnDataType_t type) const {
  return channels_last(type, out_[0], out_[3], out_[1], out_[2]);
}
Layout ConvolutionPlans::weight() const {
  // That there are groups follows from fewer input channels than x has.
  return channels_last(type_, out_[3], in_[3] / spec_.groups, spec_.kernel.rows,
                       spec_.kernel.columns);
}

std::shared_ptr<const Graph> ConvolutionPlans::forward_graph() const {
  auto graph = std::make_shared<Graph>("convolution");
  const Graph::Tensor x = graph->memory(this->x());
  const Graph::Tensor w = graph->memory(weight());
  if (!spec_.bias && after_ == Activation::none) {
    graph->convolution_forward(window_, x, w, graph->memory(y(type_)));
  } else {
    // In between all is fp32; the engines that are compiled beforehand want it so.
    Graph::Tensor sums = graph->between(y(CUDNN_DATA_FLOAT));
    graph->convolution_forward(window_, x, w, sums);
    const auto next = [&](bool last) {
      return last ? graph->memory(y(type_)) : graph->between(y(CUDNN_DATA_FLOAT));
    };
    if (spec_.bias) {
      const Graph::Tensor bias = graph->memory(channels_last(type_, 1, out_[3], 1, 1));
      const Graph::Tensor moved = next(after_ == Activation::none);
      graph->pointwise(CUDNN_POINTWISE_ADD, {sums, bias}, moved);
      sums = moved;
    }
    if (after_ == Activation::relu) {
      graph->pointwise(CUDNN_POINTWISE_RELU_FWD, {sums}, next(true));
    }
  }
  return graph;
}

bool ConvolutionPlans::supported() {
  std::string reason;
  if (forward_ == nullptr) forward_ = try_make_plan(context_, forward_graph(), precision_, reason);
  return forward_ != nullptr;
}

std::shared_ptr<const Plan> ConvolutionPlans::forward_plan() {
  if (forward_ == nullptr) forward_ = make_plan(context_, forward_graph(), precision_);
  return forward_;
}

std::shared_ptr<const Graph> ConvolutionPlans::input_gradient_graph() const {
  auto graph = std::make_shared<Graph>("convolution's input gradient");
  const Graph::Tensor dy = graph->memory(y(type_));
  const Graph::Tensor w = graph->memory(weight());
  graph->convolution_data(window_, dy, w, graph->memory(x()));
  return graph;
}

std::shared_ptr<const Graph> ConvolutionPlans::weight_gradient_graph() const {
  auto graph = std::make_shared<Graph>("convolution's weight gradient");
  const Graph::Tensor x = graph->memory(this->x());
  const Graph::Tensor dy = graph->memory(y(type_));
  graph->convolution_filter(window_, x, dy, graph->memory(weight()));
  return graph;
}

std::shared_ptr<const Plan> ConvolutionPlans::input_gradient_plan() {
  if (input_gradient_ == nullptr) {
    input_gradient_ = make_plan(context_, input_gradient_graph(), precision_);
  }
  return input_gradient_;
}

std::shared_ptr<const Plan> ConvolutionPlans::weight_gradient_plan() {
  if (weight_gradient_ == nullptr) {
    weight_gradient_ = make_plan(context_, weight_gradient_graph(), precision_);
  }
  return weight_gradient_;
}

std::size_t ConvolutionPlans::forward_workspace() { return forward_plan()->workspace(); }
std::size_t ConvolutionPlans::input_gradient_workspace() {
  return input_gradient_plan()->workspace();
}
std::size_t ConvolutionPlans::weight_gradient_workspace() {
  return weight_gradient_plan()->workspace();
}
void ConvolutionPlans::forward(cudaStream_t stream, const void* x, const void* weight,
                               const void* bias, void* y, void* workspace) {
  const std::shared_ptr<const Plan> plan = forward_plan();
  if (spec_.bias) {
    const std::array memories = {mutable_pointer(x), mutable_pointer(weight), mutable_pointer(bias),
                                 y};
    plan->run(context_.dnn(), stream, memories, workspace);
  } else {
    const std::array memories = {mutable_pointer(x), mutable_pointer(weight), y};
    plan->run(context_.dnn(), stream, memories, workspace);
  }
}

void ConvolutionPlans::input_gradient(cudaStream_t stream, const void* dy, const void* weight,
                                      void* dx, void* workspace) {
  const std::array memories = {mutable_pointer(dy), mutable_pointer(weight), dx};
  input_gradient_plan()->run(context_.dnn(), stream, memories, workspace);
}

void ConvolutionPlans::weight_gradient(cudaStream_t stream, const void* x, const void* dy,
                                       void* dweight, void* workspace) {
  const std::array memories = {mutable_pointer(x), mutable_pointer(dy), dweight};
  weight_gradient_plan()->run(context_.dnn(), stream, memories, workspace);
}

}  // namespace hetpipe::cuda
