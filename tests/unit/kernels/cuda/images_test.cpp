// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/images.h"

#include "kernels/reference/adaptive_pool.h"
#include "kernels/reference/resize.h"
#include "tests/unit/kernels/cuda/own_test.h"

namespace hetpipe::cuda {
namespace images_test {

using namespace test;

template <class T>
class ImageKernels : public testing::Test {};
TYPED_TEST_SUITE(ImageKernels, Elements);

const Shape kImages[] = {{2, 4, 4, 8}, {1, 5, 7, 3}, {1, 3, 9, 16}, {2, 1, 1, 5}, {1, 6, 2, 20}};

// A sum of up to sixteen terms and its rounding to T.
template <class T>
void expect_near(const std::vector<T>& got, const std::vector<float>& wanted) {
  const float slack = std::is_same_v<T, float> ? 2e-6f : std::is_same_v<T, Bf16> ? 8e-3f : 1e-3f;
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<float>(got[i]), wanted[i], slack * (1 + std::abs(wanted[i]))) << i;
  }
}

TYPED_TEST(ImageKernels, Resize) {
  in_both_orders([&] {
    for (const Shape& in : kImages)
      for (const auto kind :
           {Resize::Kind::nearest, Resize::Kind::bilinear, Resize::Kind::bilinear_aligned})
        for (const auto& [rows, columns] : {std::pair{2, 3}, {7, 5}, {8, 8}, {1, 14}}) {
          const auto step = [&](std::int64_t from, int to) {
            if (kind != Resize::Kind::bilinear_aligned) return double(from) / to;
            return to == 1 ? 0.0 : double(from - 1) / (to - 1);
          };
          const Resize r{kind, rows, columns, step(in[1], rows), step(in[2], columns)};
          SCOPED_TRACE(to_string(LayerSpec{r}) + " of " + to_string(in));
          const ResizeAxis down = resize_axis(kind, in[1], rows, r.row_step);
          const ResizeAxis across = resize_axis(kind, in[2], columns, r.column_step);
          const std::int64_t outputs = in[0] * rows * columns * in[3];
          Array<TypeParam> x(draws<TypeParam>(1, in.elements()), 1), y(outputs);
          std::vector<float> wanted(static_cast<std::size_t>(outputs));
          reference::resize_forward(r, in, widened(x.values()).data(), wanted.data());
          resize_forward(down, across, in, x.data(), y.data(), nullptr);
          expect_near(y.values(), wanted);
          Array<TypeParam> dy(draws<TypeParam>(2, outputs)), dx(in.elements(), 1);
          std::vector<float> wanted_dx(static_cast<std::size_t>(in.elements()));
          reference::resize_backward(r, in, widened(dy.values()).data(), wanted_dx.data());
          resize_backward(down, across, in, dy.data(), dx.data(), nullptr);
          expect_near(dx.values(), wanted_dx);
        }
  });
}

TYPED_TEST(ImageKernels, AdaptivePool) {
  in_both_orders([&] {
    for (const Shape& in : kImages)
      for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 2}, {7, 5}}) {
        AdaptivePool p{false, rows, columns};
        SCOPED_TRACE(to_string(LayerSpec{p}) + " of " + to_string(in));
        const std::int64_t outputs = in[0] * rows * columns * in[3];
        Array<TypeParam> x(draws<TypeParam>(1, in.elements())), y(outputs, 1);
        Array<TypeParam> dy(draws<TypeParam>(2, outputs)), dx(in.elements());
        std::vector<float> wanted(static_cast<std::size_t>(outputs));
        std::vector<float> wanted_dx(static_cast<std::size_t>(in.elements()));
        reference::adaptive_average_forward(p, in, widened(x.values()).data(), wanted.data());
        adaptive_average_forward(rows, columns, in, x.data(), y.data(), nullptr);
        expect_near(y.values(), wanted);
        reference::adaptive_average_backward(p, in, widened(dy.values()).data(), wanted_dx.data());
        adaptive_average_backward(rows, columns, in, dy.data(), dx.data(), nullptr);
        expect_near(dx.values(), wanted_dx);
        Array<std::int32_t> winner(outputs), wanted_winner(outputs);
        reference::adaptive_max_forward(p, in, widened(x.values()).data(), wanted.data(),
                                        wanted_winner.data());
        adaptive_max_forward(rows, columns, in, x.data(), y.data(), winner.data(), nullptr);
        expect_near(y.values(), wanted);
        EXPECT_EQ(winner.values(), wanted_winner.values());
        reference::adaptive_max_backward(p, in, widened(dy.values()).data(), wanted_winner.data(),
                                         wanted_dx.data());
        adaptive_max_backward(rows, columns, in, dy.data(), winner.data(), dx.data(), nullptr);
        expect_near(dx.values(), wanted_dx);
      }
  });
}

}  // namespace images_test
}  // namespace hetpipe::cuda
