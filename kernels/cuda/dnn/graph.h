// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/dnn/descriptor.h"
#include "kernels/element.h"

// A graph of cuDNN operations between tensors, described without a device. Its key says all of it
// in text: equal keys, equal graphs.
namespace hetpipe::cuda {

using Extents = std::vector<std::int64_t>;

// Where a tensor's elements lie. cuDNN counts extents of images as (N, C, H, W) whatever their
// order in memory; the steps (in elements) say that.
struct Layout {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Extents extents;
  Extents steps;

  std::size_t bytes() const;  // from the first element to the last
};

std::string to_string(const Layout& layout);  // "bf16 32,64,56,56/200704,1,3584,64"
cudnnDataType_t dnn_type(ElementType type);
Layout channels_last(cudnnDataType_t type, std::int64_t n, std::int64_t c, std::int64_t h,
                     std::int64_t w);
Layout packed(cudnnDataType_t type, Extents extents);

struct ConvolutionWindow {
  Extents padding;  // rows, columns; before them
  Extents stride;
  Extents padding_end = padding;  // behind them
  Extents dilation = {1, 1};
};

class Graph {
 public:
  enum class Tensor : int {};

  explicit Graph(std::string name) : name_(std::move(name)) {}

  // Memory that a run is given, by pointers in the order of these calls, at addresses that are
  // multiples of 16.
  Tensor memory(Layout layout);
  // A result that lives inside the graph alone. Which type it is rounded to may matter.
  Tensor between(Layout layout);
  Tensor constant(float value);  // fits any rank of 4 by broadcasting

  void convolution_forward(const ConvolutionWindow& window, Tensor x, Tensor w, Tensor y);
  void convolution_data(const ConvolutionWindow& window, Tensor dy, Tensor w, Tensor dx);
  void convolution_filter(const ConvolutionWindow& window, Tensor x, Tensor dy, Tensor dw);
  // y = mode(x), mode(x, b), or x where t and b elsewhere.
  void pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> inputs, Tensor y);
  void index_along(std::int64_t axis, Tensor x, Tensor y);  // y[...] = place along the axis
  void matrix_product(Tensor a, Tensor b, Tensor c);        // of the last two extents
  void reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y);
  void reshape(Tensor x, Tensor y);

  // What was asked for, as values. A reshape gives the same memory other extents and steps.
  enum class Kind {
    convolution,
    convolution_data,
    convolution_filter,
    pointwise,
    index,
    product,
    reduction,
    reshape
  };
  struct Operation {
    Kind kind;
    std::vector<Tensor> inputs;
    std::vector<Tensor> outputs;
    int mode = 0;                   // of pointwise operations and reductions; an index's axis
    ConvolutionWindow window = {};  // of convolutions
  };
  const std::vector<Operation>& operations() const { return operations_; }
  // Whether it has a ReLU, which some engines compute as max(x, 0): a NaN, the news of a numerical
  // failure, would end there, whatever the library was told.
  bool may_lose_nans() const;

  const std::string& name() const { return name_; }
  const std::string& key() const { return key_; }

  const Layout& layout(Tensor tensor) const;
  std::optional<float> constant_value(Tensor tensor) const;
  std::vector<Tensor> memories() const;  // in the order of a run's pointers
  // Identities and places of the constants, which stay where they are while the graph lives.
  void append_constants(std::vector<std::int64_t>& identities, std::vector<void*>& pointers) const;
  static std::int64_t identity(Tensor tensor) { return static_cast<std::int64_t>(tensor) + 1; }

  // The library's own form, for a handle (null: for no device yet).
  Descriptor finalized(cudnnHandle_t handle) const;

 private:
  enum class Place { memory, between, constant };
  struct Node {
    Place place;
    Layout layout;
    float value = 0;
    Descriptor descriptor;
  };

  Tensor add(Place place, Layout layout, float value);
  const Descriptor& of(Tensor tensor) const;
  void add_operation(Descriptor descriptor, Operation operation);
  Descriptor convolution(const ConvolutionWindow& window) const;

  std::string name_;
  std::string key_;
  std::deque<Node> nodes_;
  std::vector<Descriptor> parts_;  // what operations are made of
  std::vector<Operation> operations_;
  std::vector<Descriptor> descriptors_;  // of the operations
};

}  // namespace hetpipe::cuda
