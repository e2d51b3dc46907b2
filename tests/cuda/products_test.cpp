// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "kernels/cuda/blas/linear.h"

// cuBLASLt makes no handle without a GPU, so that here no algorithm can be asked for: what can be
// tested is that it takes every description of a product. The arithmetic behind these is tested in
// tests/unit/kernels/plans.
namespace hetpipe::cuda {
namespace products_test {

using testing::HasSubstr;

TEST(Products, EveryFormIsOneThatTheLibraryHas) {
  const std::unique_ptr<Context> context = Context::described(read_file(HETPIPE_H200), {});
  for (const Precision precision :
       {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16})
    for (const Epilogue epilogue : {Epilogue::none, Epilogue::bias, Epilogue::bias_gelu,
                                    Epilogue::bias_from_a, Epilogue::bias_from_b})
      for (const bool transposed : {false, true}) {
        const Product product{.rows = 96,
                              .columns = 65,
                              .inner = 32,
                              .transposed_a = transposed,
                              .transposed_b = !transposed,
                              .step_c = 80,
                              .batch = 3,
                              .batch_a = 96 * 32,
                              .batch_b = 32 * 65,
                              .batch_c = 96 * 80};
        for (const ElementType result : {element_of(precision), ElementType::fp32})
          EXPECT_NO_THROW(MatrixProduct(*context, product, {precision, result}, epilogue));
      }
}

TEST(Products, WithoutAGpuTheySaySo) {
  const std::unique_ptr<Context> context = Context::described(read_file(HETPIPE_H200), {});
  LinearPlans plans(*context, {.output_features = 50257, .transposed = true}, {2, 128, 768},
                    Precision::bf16);
  try {
    plans.input_gradient_workspace();
    FAIL() << "planned";
  } catch (const SystemError& e) {
    EXPECT_THAT(e.what(), HasSubstr("cuBLASLt: it plans only for the GPU it runs on"));
    EXPECT_THAT(e.what(), HasSubstr("256,768,50257"));
  }
}

}  // namespace products_test
}  // namespace hetpipe::cuda
