// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>

#include "kernels/cuda/context.h"
#include "kernels/element.h"
#include "kernels/layer.h"

// A convolution by cuDNN, three graphs. With T the precision's element type, in device memory:
// x (N, H, W, I), y (N, H', W', O), weight (O, KH, KW, I/groups), its gradient, and bias (O), all
// of T (no card has an engine that writes the gradient of 16-bit factors in fp32); sums run in
// fp32. Plans are made when first asked for (by a run or for their workspace): a first layer needs
// no input gradient, an evaluation no gradients. The caller gives the workspace.
namespace hetpipe::cuda {

enum class Activation { none, relu };

class ConvolutionPlans {
 public:
  // The bias is added in the same pass (spec.bias), and so is `after` applied.
  ConvolutionPlans(Context& context, const Convolution& spec, const Shape& in, Precision precision,
                   Activation after = Activation::none);

  // Whether the library has a way forward with all that shall be taken along.
  bool supported();
  std::size_t forward_workspace();
  std::size_t input_gradient_workspace();
  std::size_t weight_gradient_workspace();

  void forward(cudaStream_t stream, const void* x, const void* weight, const void* bias, void* y,
               void* workspace);
  void input_gradient(cudaStream_t stream, const void* dy, const void* weight, void* dx,
                      void* workspace);
  void weight_gradient(cudaStream_t stream, const void* x, const void* dy, void* dweight,
                       void* workspace);

  std::shared_ptr<const Graph> forward_graph() const;
  std::shared_ptr<const Graph> input_gradient_graph() const;
  std::shared_ptr<const Graph> weight_gradient_graph() const;
  std::shared_ptr<const Plan> forward_plan();
  std::shared_ptr<const Plan> input_gradient_plan();
  std::shared_ptr<const Plan> weight_gradient_plan();

 private:
  Layout x() const;
  Layout y(cudnnDataType_t type) const;
  Layout weight() const;

  Context& context_;
  Convolution spec_;
  Shape in_, out_;
  Precision precision_;
  cudnnDataType_t type_;
  Activation after_;
  ConvolutionWindow window_;
  std::shared_ptr<const Plan> forward_, input_gradient_, weight_gradient_;
};

}  // namespace hetpipe::cuda
