// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "kernels/cuda/dnn/convolution.h"

// The types in which scales are given to the library. It takes doubles without a word, and an H200
// then read the lower half of 1.0, which is 0: results of convolutions were zeros.
namespace {

using Type = cudnnBackendAttributeType_t;
std::map<cudnnBackendAttributeName_t, Type> given;  // by attribute, the last

}  // namespace

// In place of the library's, which it calls.
extern "C" cudnnStatus_t CUDNNWINAPI cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor,
                                                              cudnnBackendAttributeName_t name,
                                                              Type type, std::int64_t count,
                                                              const void* values) {
  static const auto real =
      reinterpret_cast<decltype(&cudnnBackendSetAttribute)>(dlsym(RTLD_NEXT, __func__));
  given[name] = type;
  return real(descriptor, name, type, count, values);
}

namespace hetpipe::cuda {
namespace scales_test {

TEST(Scales, OfConvolutionsAreFloats) {
  const std::unique_ptr<Context> context = Context::described(read_file(HETPIPE_H200), {});
  const ConvolutionPlans plans(*context, {.output_channels = 16, .kernel = 3, .bias = false},
                               {4, 8, 8, 16}, Precision::bf16);
  given.clear();
  plans.forward_graph();
  plans.input_gradient_graph();
  plans.weight_gradient_graph();
  for (const cudnnBackendAttributeName_t name :
       {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}) {
    ASSERT_TRUE(given.contains(name)) << name;
    EXPECT_EQ(given[name], CUDNN_TYPE_FLOAT) << name;
  }
}

}  // namespace scales_test
}  // namespace hetpipe::cuda
