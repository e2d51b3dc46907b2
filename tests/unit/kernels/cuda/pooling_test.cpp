// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/pooling.h"

#include "kernels/reference/pooling.h"
#include "tests/unit/kernels/cuda/own_test.h"

namespace hetpipe::cuda {
namespace pooling_test {

using namespace test;

struct PoolCase {
  Window window;
  Shape in;
};

template <class T>
class PoolingKernels : public testing::Test {
 protected:
  // f(case, shape of the output, offset of some arrays): odd sides and channels, padding, windows
  // that overlap, leave gaps or cover all.
  template <class F>
  static void sweep(const F& f) {
    const std::vector<PoolCase> cases = {
        {{2, 2, 0}, {2, 4, 4, 8}},           {{2, 2, 0}, {2, 5, 7, 3}},
        {{3, 2, 1}, {1, 7, 5, 16}},          {{3, 1, 1}, {2, 6, 4, 5}},
        {{2, 3, 1}, {1, 8, 9, 12}},          {{1, 2, 0}, {1, 5, 5, 4}},
        {{{2, 3}, 2, {1, 0}}, {1, 6, 7, 9}}, {{5, 1, 2}, {1, 5, 5, 17}},
        {{4, 4, 2}, {1, 9, 6, 1}},           {{16, 3, 8}, {1, 19, 21, 2}},
        {{3, 2, 1}, {3, 1, 1, 7}},           {{3, 2, 1}, {2, 12, 12, 64}},
        {{{1, 4}, 1, {0, 2}}, {1, 3, 9, 8}}};
    in_both_orders([&] {
      for (const PoolCase& c : cases) {
        for (const std::int64_t offset : {0, 1}) {
          SCOPED_TRACE(testing::Message()
                       << "window " << c.window.rows.kernel << "x" << c.window.columns.kernel
                       << ", stride " << c.window.rows.stride << " on " << to_string(c.in)
                       << ", offset " << offset);
          f(c, c.window.output(c.in, c.in[3]), offset);
        }
      }
    });
  }
};
TYPED_TEST_SUITE(PoolingKernels, Elements);

TYPED_TEST(PoolingKernels, LargestOfAWindow) {
  this->sweep([](const PoolCase& c, const Shape& out, std::int64_t offset) {
    // Coarse values, so that there are equals; and a NaN here and there.
    std::vector<TypeParam> values = draws<TypeParam>(1, c.in.elements());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] =
          TypeParam(i % 41 == 7 ? std::nanf("") : std::round(2 * static_cast<float>(values[i])));
    }
    Array<TypeParam> x(values, offset), y(out.elements()), evaluated(out.elements(), offset);
    Array<std::uint8_t> winner(out.elements(), offset), wanted_winner(out.elements());
    std::vector<float> wanted(static_cast<std::size_t>(out.elements()));
    reference::max_pool_forward(c.window, c.in, widened(values).data(), wanted.data(),
                                wanted_winner.data());
    max_pool_forward(c.window, c.in, x.data(), y.data(), winner.data(), nullptr);
    max_pool_forward(c.window, c.in, x.data(), evaluated.data(), nullptr, nullptr);
    ASSERT_TRUE(same_rounded(y.values(), wanted));
    ASSERT_TRUE(same_rounded(evaluated.values(), wanted));
    ASSERT_TRUE(same(winner.values(), wanted_winner.values()));

    Array<TypeParam> dy(draws<TypeParam>(2, out.elements()), offset), dx(c.in.elements());
    std::vector<float> wanted_dx(static_cast<std::size_t>(c.in.elements()));
    reference::max_pool_backward(c.window, c.in, widened(dy.values()).data(), wanted_winner.data(),
                                 wanted_dx.data());
    max_pool_backward(c.window, c.in, dy.data(), winner.data(), dx.data(), nullptr);
    ASSERT_TRUE(same_rounded(dx.values(), wanted_dx));
  });
}

TYPED_TEST(PoolingKernels, LargestOfADilatedWindow) {
  for (const MaxPool& pool : {MaxPool{2, 1, 0, false, 2}, MaxPool{3, 2, 1, false, 2},
                              MaxPool{3, {1, 2}, 1, true, {3, 2}}}) {
    const Window window = window_of(pool);
    for (const Shape& in : {Shape{2, 9, 8, 5}, Shape{1, 7, 11, 16}}) {
      SCOPED_TRACE(to_string(LayerSpec(pool)) + " on " + to_string(in));
      const Shape out = window.output(in, in[3]);
      Array<TypeParam> x(draws<TypeParam>(1, in.elements())), y(out.elements());
      Array<TypeParam> dy(draws<TypeParam>(2, out.elements())), dx(in.elements());
      Array<std::uint8_t> winner(out.elements()), wanted_winner(out.elements());
      std::vector<float> wanted(static_cast<std::size_t>(out.elements()));
      std::vector<float> wanted_dx(static_cast<std::size_t>(in.elements()));
      reference::max_pool_forward(window, in, widened(x.values()).data(), wanted.data(),
                                  wanted_winner.data());
      max_pool_forward(window, in, x.data(), y.data(), winner.data(), nullptr);
      ASSERT_TRUE(same_rounded(y.values(), wanted));
      ASSERT_TRUE(same(winner.values(), wanted_winner.values()));
      reference::max_pool_backward(window, in, widened(dy.values()).data(), wanted_winner.data(),
                                   wanted_dx.data());
      max_pool_backward(window, in, dy.data(), winner.data(), dx.data(), nullptr);
      ASSERT_TRUE(same_rounded(dx.values(), wanted_dx));
    }
  }
}

TYPED_TEST(PoolingKernels, MeanOfAWindow) {
  this->sweep([](const PoolCase& c, const Shape& out, std::int64_t offset) {
    for (const bool count_padding : {true, false}) {
      Array<TypeParam> x(draws<TypeParam>(3, c.in.elements()), offset), y(out.elements());
      std::vector<float> wanted(static_cast<std::size_t>(out.elements()));
      reference::average_pool_forward(c.window, c.in, count_padding, widened(x.values()).data(),
                                      wanted.data());
      average_pool_forward(c.window, c.in, count_padding, x.data(), y.data(), nullptr);
      ASSERT_TRUE(same_rounded(y.values(), wanted));

      Array<TypeParam> dy(draws<TypeParam>(4, out.elements()), offset), dx(c.in.elements());
      std::vector<float> wanted_dx(static_cast<std::size_t>(c.in.elements()));
      reference::average_pool_backward(c.window, c.in, count_padding, widened(dy.values()).data(),
                                       wanted_dx.data());
      average_pool_backward(c.window, c.in, count_padding, dy.data(), dx.data(), nullptr);
      ASSERT_TRUE(same_rounded(dx.values(), wanted_dx));
    }
  });
}

TYPED_TEST(PoolingKernels, MeanOfAnImage) {
  in_both_orders([] {
    for (const Shape& in : {Shape{1, 1, 1, 1}, Shape{3, 7, 7, 5}, Shape{2, 4, 3, 64},
                            Shape{5, 2, 9, 2}, Shape{1, 13, 13, 131}}) {
      for (const std::int64_t offset : {0, 1}) {
        SCOPED_TRACE(to_string(in));
        const std::int64_t rows = in[0] * in[3];
        Array<TypeParam> x(draws<TypeParam>(5, in.elements()), offset), y(rows);
        std::vector<float> wanted(static_cast<std::size_t>(rows));
        reference::global_average_pool_forward(in, widened(x.values()).data(), wanted.data());
        global_average_pool_forward(in, x.data(), y.data(), nullptr);
        ASSERT_TRUE(same_rounded(y.values(), wanted));

        Array<TypeParam> dy(draws<TypeParam>(6, rows), offset), dx(in.elements());
        std::vector<float> wanted_dx(static_cast<std::size_t>(in.elements()));
        reference::global_average_pool_backward(in, widened(dy.values()).data(), wanted_dx.data());
        global_average_pool_backward(in, dy.data(), dx.data(), nullptr);
        ASSERT_TRUE(same_rounded(dx.values(), wanted_dx));
      }
    }
  });
}

}  // namespace pooling_test
}  // namespace hetpipe::cuda
