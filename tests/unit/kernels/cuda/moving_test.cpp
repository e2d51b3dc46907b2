// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/moving.h"

#include "kernels/reference/elementwise.h"
#include "tests/unit/kernels/cuda/own_test.h"

namespace hetpipe::cuda {
namespace moving_test {

using namespace test;

template <class T>
class Moving : public testing::Test {};
TYPED_TEST_SUITE(Moving, Elements);

const std::vector<Shape> kShapes = {{1, 1, 1, 1},  {2, 3, 5, 7},  {3, 7, 7, 64}, {1, 8, 4, 32},
                                    {2, 5, 7, 33}, {1, 1, 70, 3}, {4, 2, 2, 8},  {1, 6, 11, 95}};

TYPED_TEST(Moving, FlattensAndBack) {
  in_both_orders([] {
    for (const Shape& in : kShapes) {
      for (const std::int64_t offset : {0, 1}) {
        SCOPED_TRACE(to_string(in));
        Array<TypeParam> x(draws<TypeParam>(1, in.elements()), offset), y(in.elements());
        Array<TypeParam> wanted(in.elements());
        reference::flatten_forward(in, x.data(), wanted.data());
        flatten_forward(in, x.data(), y.data(), nullptr);
        ASSERT_TRUE(same(y.values(), wanted.values()));
        Array<TypeParam> back(in.elements(), offset);
        flatten_backward(in, y.data(), back.data(), nullptr);
        ASSERT_TRUE(same(back.values(), x.values()));
        reference::flatten_backward(in, x.data(), wanted.data());
        flatten_backward(in, x.data(), back.data(), nullptr);
        ASSERT_TRUE(same(back.values(), wanted.values()));
      }
    }
  });
}

TYPED_TEST(Moving, ConcatenatesAndBack) {
  in_both_orders([] {
    for (const std::int64_t rows : {1, 5, 67}) {
      for (const std::vector<std::int64_t>& channels :
           {std::vector<std::int64_t>{3, 5}, {8, 16, 64}, {1, 8, 2}, {33, 31}}) {
        std::int64_t all = 0, first = 0;
        for (const std::int64_t c : channels) all += c;
        Array<TypeParam> y(rows * all), wanted(rows * all);
        std::vector<Array<TypeParam>> inputs;
        for (const std::int64_t c : channels) {
          inputs.emplace_back(draws<TypeParam>(static_cast<std::uint64_t>(c), rows * c));
          concat_forward(rows, c, first, all, inputs.back().data(), y.data(), nullptr);
          reference::concat_forward(rows, c, first, all, inputs.back().data(), wanted.data());
          first += c;
        }
        ASSERT_TRUE(same(y.values(), wanted.values()));
        first = 0;
        for (std::size_t i = 0; i < channels.size(); first += channels[i++]) {
          Array<TypeParam> dx(rows * channels[i], 1);
          concat_backward(rows, channels[i], first, all, y.data(), dx.data(), nullptr);
          ASSERT_TRUE(same(dx.values(), inputs[i].values()));
        }
      }
    }
  });
}

TYPED_TEST(Moving, ShiftsAndBack) {
  in_both_orders([] {
    for (const Shape& in : kShapes) {
      for (const auto& [rows, columns] : {std::pair(1, 1), {0, 2}, {3, 0}, {9, 9}, {0, 0}}) {
        for (const int sign : {1, -1}) {
          SCOPED_TRACE(testing::Message()
                       << to_string(in) << " by " << sign * rows << ", " << sign * columns);
          Array<TypeParam> x(draws<TypeParam>(2, in.elements()), rows % 2);
          Array<TypeParam> y(in.elements()), wanted(in.elements());
          std::vector<float> values(static_cast<std::size_t>(in.elements()));
          reference::shift(in, sign * rows, sign * columns, widened(x.values()).data(),
                           values.data());
          shift(in, sign * rows, sign * columns, x.data(), y.data(), nullptr);
          ASSERT_TRUE(same_rounded(y.values(), values));
        }
      }
    }
  });
}

}  // namespace moving_test
}  // namespace hetpipe::cuda
