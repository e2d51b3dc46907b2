// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/blas/linear.h"

namespace hetpipe::cuda {
namespace {

std::int64_t rows_of(const Shape& in) { return in.elements() / in[in.rank() - 1]; }
std::int64_t columns_of(const Shape& in) { return in[in.rank() - 1]; }

// Which factor of the weight gradient is dy (linear_products.h).
Epilogue bias_gradient(const Linear& spec) {
  return spec.transposed ? Epilogue::bias_from_a : Epilogue::bias_from_b;
}

}  // namespace

LinearPlans::LinearPlans(Context& context, const Linear& spec, const Shape& in, Precision precision)
    : spec_(spec),
      precision_(precision),
      biased_(context, linear_forward(spec, rows_of(in), columns_of(in)),
              {precision, element_of(precision)}, Epilogue::bias),
      gelu_(context, linear_forward(spec, rows_of(in), columns_of(in)),
            {precision, element_of(precision)}, Epilogue::bias_gelu),
      forward_(context, linear_forward(spec, rows_of(in), columns_of(in)),
               {precision, element_of(precision)}),
      input_gradient_(context, linear_input_gradient(spec, rows_of(in), columns_of(in)),
                      {precision, element_of(precision)}),
      summing_(context, linear_weight_gradient(spec, rows_of(in), columns_of(in)),
               {precision, ElementType::fp32}, bias_gradient(spec)),
      weight_gradient_(context, linear_weight_gradient(spec, rows_of(in), columns_of(in)),
                       {precision, ElementType::fp32}) {}

bool LinearPlans::adds_bias() { return !spec_.bias || biased_.supported(); }
bool LinearPlans::adds_gelu() {
  return spec_.bias && spec_.output_features % 8 == 0 && precision_ != Precision::fp32 &&
         gelu_.supported();
}
bool LinearPlans::sums_bias_gradient() { return !spec_.bias || summing_.supported(); }

std::size_t LinearPlans::forward_workspace() { return forward_product().workspace(); }
std::size_t LinearPlans::weight_gradient_workspace() {
  return weight_gradient_product().workspace();
}

void LinearPlans::forward(cudaStream_t stream, const void* x, const void* weight, const void* bias,
                          void* y, void* workspace) {
  MatrixProduct& product = bias != nullptr ? forward_product() : forward_;
  product.run(stream, {.a = x,
                       .b = weight,
                       .c = y,
                       .bias = const_cast<void*>(bias),  // NOLINT: only read by this epilogue
                       .workspace = workspace});
}

void LinearPlans::forward_gelu(cudaStream_t stream, const void* x, const void* weight,
                               const void* bias, void* h, void* y, void* workspace) {
  gelu_.run(stream, {.a = x,
                     .b = weight,
                     .c = y,
                     .bias = const_cast<void*>(bias),  // NOLINT: only read by this epilogue
                     .aux = h,
                     .workspace = workspace});
}

void LinearPlans::input_gradient(cudaStream_t stream, const void* dy, const void* weight, void* dx,
                                 void* workspace) {
  input_gradient_.run(stream, {.a = dy, .b = weight, .c = dx, .workspace = workspace});
}

void LinearPlans::weight_gradient(cudaStream_t stream, const void* x, const void* dy,
                                  float* dweight, float* dbias, void* workspace, float beta) {
  const void* const a = spec_.transposed ? dy : x;
  const void* const b = spec_.transposed ? x : dy;
  MatrixProduct& product = dbias != nullptr ? weight_gradient_product() : weight_gradient_;
  product.run(stream,
              {.a = a, .b = b, .c = dweight, .bias = dbias, .workspace = workspace, .beta = beta});
}

}  // namespace hetpipe::cuda
