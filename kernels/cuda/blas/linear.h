// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/blas/linear_products.h"
#include "kernels/cuda/blas/product.h"
#include "kernels/cuda/context.h"
#include "kernels/layer.h"

// A linear layer as three matrix products. With T the precision's element type: x (rows, in) and
// y (rows, out) of T, where (N, T, F) has N*T rows; weight (in, out), or (out, in) where
// transposed, and bias (out) of T; the gradients of weight and bias fp32. Bias and bias gradient
// are taken along where the library has an algorithm for that.
namespace hetpipe::cuda {

class LinearPlans {
 public:
  LinearPlans(Context& context, const Linear& spec, const Shape& in, Precision precision);

  // False where the layer has a bias that the caller has to add, or whose gradient it has to sum.
  // He may do so anyway where x, weight, y, or x, dy, dweight, are not all at multiples of 16
  // bytes: the product is then asked for without (bias or dbias null), and needs no workspace.
  bool adds_bias();
  bool sums_bias_gradient();

  // Whether bias and GELU can be taken along: where there is a bias, rows of y are a multiple of 8
  // elements, and less than fp32 is asked for, whose digits the library's GELU does not promise.
  bool adds_gelu();

  std::size_t forward_workspace();
  std::size_t gelu_workspace() { return gelu_.workspace(); }
  std::size_t input_gradient_workspace() { return input_gradient_.workspace(); }
  std::size_t weight_gradient_workspace();

  void forward(cudaStream_t stream, const void* x, const void* weight, const void* bias, void* y,
               void* workspace);
  // Where adds_gelu(), all memory at multiples of 16 bytes: y = gelu(h), h = x · weight + bias.
  void forward_gelu(cudaStream_t stream, const void* x, const void* weight, const void* bias,
                    void* h, void* y, void* workspace);
  void input_gradient(cudaStream_t stream, const void* dy, const void* weight, void* dx,
                      void* workspace);
  // dbias is written where sums_bias_gradient(). dweight is added to what is there, times `beta`.
  void weight_gradient(cudaStream_t stream, const void* x, const void* dy, float* dweight,
                       float* dbias, void* workspace, float beta = 0);

 private:
  MatrixProduct& forward_product() { return adds_bias() && spec_.bias ? biased_ : forward_; }
  MatrixProduct& weight_gradient_product() {
    return sums_bias_gradient() && spec_.bias ? summing_ : weight_gradient_;
  }

  Linear spec_;
  Precision precision_;
  MatrixProduct biased_, gelu_, forward_, input_gradient_, summing_, weight_gradient_;
};

}  // namespace hetpipe::cuda
