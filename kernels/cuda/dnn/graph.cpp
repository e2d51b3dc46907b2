// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/dnn/graph.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe::cuda {
namespace {

const char* name_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return "fp32";
    case CUDNN_DATA_HALF:
      return "fp16";
    case CUDNN_DATA_BFLOAT16:
      return "bf16";
    case CUDNN_DATA_INT32:
      return "int32";
    case CUDNN_DATA_BOOLEAN:
      return "bool";
    default:
      return "?";
  }
}

std::size_t bytes_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_BOOLEAN:
      return 1;
    default:
      ensure(false, "a type of tensors that is not used here");
      return 0;
  }
}

std::string text_of(const Extents& numbers) {
  std::string text;
  for (const std::int64_t n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
  return text;
}

std::string text_of(const ConvolutionWindow& window) {
  std::string text = " pad " + text_of(window.padding) + " stride " + text_of(window.stride);
  if (window.padding_end != window.padding) text += " end " + text_of(window.padding_end);
  if (window.dilation != Extents{1, 1}) text += " dilation " + text_of(window.dilation);
  return text;
}

std::string text_of(const std::vector<Graph::Tensor>& tensors) {
  std::string text;
  for (const Graph::Tensor t : tensors)
    text += (text.empty() ? "" : ",") + std::to_string(Graph::identity(t));
  return text;
}

const char* name_of(Graph::Kind kind) {
  constexpr const char* kNames[] = {
      "convolution", "convolution-data", "convolution-filter", "pointwise",
      "index",       "product",          "reduction",          "reshape"};
  return kNames[static_cast<int>(kind)];
}

// "convolution(1,2)->3 pad 1,1 stride 2,2"
std::string text_of(const Graph::Operation& operation) {
  std::string text = name_of(operation.kind);
  if (operation.mode != 0) text += "-" + std::to_string(operation.mode);
  text += "(" + text_of(operation.inputs) + ")->" + text_of(operation.outputs);
  return operation.window.padding.empty() ? text : text + text_of(operation.window);
}

}  // namespace

std::string to_string(const Layout& layout) {
  return std::string(name_of(layout.type)) + " " + text_of(layout.extents) + "/" +
         text_of(layout.steps);
}

cudnnDataType_t dnn_type(ElementType type) {
  return type == ElementType::bf16   ? CUDNN_DATA_BFLOAT16
         : type == ElementType::fp16 ? CUDNN_DATA_HALF
                                     : CUDNN_DATA_FLOAT;
}

std::size_t Layout::bytes() const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) last += (extents[i] - 1) * steps[i];
  return static_cast<std::size_t>(last + 1) * bytes_of(type);
}

Layout channels_last(cudnnDataType_t type, std::int64_t n, std::int64_t c, std::int64_t h,
                     std::int64_t w) {
  return {type, {n, c, h, w}, {h * w * c, 1, w * c, c}};
}

Layout packed(cudnnDataType_t type, Extents extents) {
  Extents steps(extents.size());
  std::int64_t step = 1;
  for (std::size_t i = extents.size(); i-- > 0; step *= extents[i]) steps[i] = step;
  return {type, std::move(extents), std::move(steps)};
}

Graph::Tensor Graph::memory(Layout layout) { return add(Place::memory, std::move(layout), 0); }
Graph::Tensor Graph::between(Layout layout) { return add(Place::between, std::move(layout), 0); }
Graph::Tensor Graph::constant(float value) {
  return add(Place::constant, packed(CUDNN_DATA_FLOAT, {1, 1, 1, 1}), value);
}

Graph::Tensor Graph::add(Place place, Layout layout, float value) {
  const Tensor tensor{static_cast<int>(nodes_.size())};
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set_enum(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, layout.type);
  d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, layout.extents);
  d.set(CUDNN_ATTR_TENSOR_STRIDES, layout.steps);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, identity(tensor));
  d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  if (place == Place::between) d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
  if (place == Place::constant) d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  d.finalize("describing a tensor of " + name_);
  key_ += (key_.empty() ? "" : "; ") + std::string(place == Place::between ? "~" : "") +
          to_string(layout);
  if (place == Place::constant) key_ += format("=%a", static_cast<double>(value));
  nodes_.push_back({place, std::move(layout), value, std::move(d)});
  return tensor;
}

const Descriptor& Graph::of(Tensor tensor) const {
  return nodes_[static_cast<std::size_t>(tensor)].descriptor;
}
const Layout& Graph::layout(Tensor tensor) const {
  return nodes_[static_cast<std::size_t>(tensor)].layout;
}

std::vector<Graph::Tensor> Graph::memories() const {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].place == Place::memory) tensors.push_back(Tensor{static_cast<int>(i)});
  return tensors;
}

void Graph::append_constants(std::vector<std::int64_t>& identities,
                             std::vector<void*>& pointers) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].place != Place::constant) continue;
    identities.push_back(identity(Tensor{static_cast<int>(i)}));
    pointers.push_back(const_cast<float*>(&nodes_[i].value));  // NOLINT: the library only reads it
  }
}

std::optional<float> Graph::constant_value(Tensor tensor) const {
  const Node& node = nodes_[static_cast<std::size_t>(tensor)];
  if (node.place != Place::constant) return std::nullopt;
  return node.value;
}

bool Graph::may_lose_nans() const {
  return std::any_of(operations_.begin(), operations_.end(), [](const Operation& o) {
    return o.kind == Kind::pointwise && o.mode == static_cast<int>(CUDNN_POINTWISE_RELU_FWD);
  });
}

void Graph::add_operation(Descriptor descriptor, Operation operation) {
  const std::string text = text_of(operation);
  descriptor.finalize("describing " + name_ + ": " + text);
  key_ += "; " + text;
  operations_.push_back(std::move(operation));
  descriptors_.push_back(std::move(descriptor));
}

Descriptor Graph::convolution(const ConvolutionWindow& window) const {
  Descriptor d(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  d.set_enum(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  d.set_enum(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
             CUDNN_CROSS_CORRELATION);
  d.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  d.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, window.dilation);
  d.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, window.stride);
  d.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, window.padding);
  d.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, window.padding_end);
  d.finalize("describing a convolution of " + name_);
  return d;
}

void Graph::convolution_forward(const ConvolutionWindow& window, Tensor x, Tensor w, Tensor y) {
  parts_.push_back(convolution(window));
  Descriptor d(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, parts_.back());
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, of(x));
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, of(w));
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, of(y));
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f);
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f);
  add_operation(std::move(d), {Kind::convolution, {x, w}, {y}, 0, window});
}

void Graph::convolution_data(const ConvolutionWindow& window, Tensor dy, Tensor w, Tensor dx) {
  parts_.push_back(convolution(window));
  Descriptor d(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR);
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, parts_.back());
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, of(dy));
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, of(w));
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, of(dx));
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1.0f);
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0.0f);
  add_operation(std::move(d), {Kind::convolution_data, {dy, w}, {dx}, 0, window});
}

void Graph::convolution_filter(const ConvolutionWindow& window, Tensor x, Tensor dy, Tensor dw) {
  parts_.push_back(convolution(window));
  Descriptor d(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, parts_.back());
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, of(x));
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, of(dy));
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, of(dw));
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1.0f);
  d.set(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0.0f);
  add_operation(std::move(d), {Kind::convolution_filter, {x, dy}, {dw}, 0, window});
}

void Graph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> inputs, Tensor y) {
  Descriptor part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  part.set_enum(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  // A comparison's own type is that of its answer.
  const bool compares = layout(y).type == CUDNN_DATA_BOOLEAN;
  part.set_enum(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
  if (mode == CUDNN_POINTWISE_RELU_FWD) {  // or the news of a numerical failure may end here
    part.set_enum(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION,
                  CUDNN_PROPAGATE_NAN);
  }
  part.finalize("describing a pointwise operation of " + name_);
  Descriptor d(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, part);
  constexpr cudnnBackendAttributeName_t kInputs[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                     CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  ensure(inputs.size() >= 1 && inputs.size() <= 3, "a pointwise operation of one to three inputs");
  std::size_t i = 0;
  for (const Tensor input : inputs) d.set(kInputs[i++], of(input));
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
  parts_.push_back(std::move(part));
  add_operation(std::move(d), {Kind::pointwise, inputs, {y}, static_cast<int>(mode)});
}

void Graph::index_along(std::int64_t axis, Tensor x, Tensor y) {
  Descriptor part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  part.set_enum(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, CUDNN_POINTWISE_GEN_INDEX);
  part.set_enum(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  part.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  part.finalize("describing an index of " + name_);
  Descriptor d(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, part);
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(x));
  d.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(y));
  parts_.push_back(std::move(part));
  add_operation(std::move(d), {Kind::index, {x}, {y}, static_cast<int>(axis)});
}

void Graph::matrix_product(Tensor a, Tensor b, Tensor c) {
  Descriptor part(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  part.set_enum(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  part.finalize("describing a matrix product of " + name_);
  Descriptor d(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  d.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, part);
  d.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a));
  d.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b));
  d.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(c));
  parts_.push_back(std::move(part));
  add_operation(std::move(d), {Kind::product, {a, b}, {c}});
}

void Graph::reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y) {
  Descriptor part(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  part.set_enum(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, mode);
  part.set_enum(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  part.finalize("describing a reduction of " + name_);
  Descriptor d(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  d.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, part);
  d.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(x));
  d.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(y));
  parts_.push_back(std::move(part));
  add_operation(std::move(d), {Kind::reduction, {x}, {y}, static_cast<int>(mode)});
}

void Graph::reshape(Tensor x, Tensor y) {
  Descriptor d(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  d.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(x));
  d.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(y));
  add_operation(std::move(d), {Kind::reshape, {x}, {y}});
}

Descriptor Graph::finalized(cudnnHandle_t handle) const {
  Descriptor d(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const std::vector<cudnnBackendDescriptor_t> operations = handles_of(descriptors_);
  d.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
        static_cast<std::int64_t>(operations.size()), operations.data());
  if (handle != nullptr) {
    d.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  }
  d.finalize("putting together the graph of " + name_);
  return d;
}

}  // namespace hetpipe::cuda
