// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/column_sums.h"

#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace column_sums_test {

using namespace test;

template <class T>
class ColumnSums : public testing::Test {};
TYPED_TEST_SUITE(ColumnSums, ElementTypes);

template <class T>
void expect_sums(std::int64_t rows, std::int64_t columns, std::int64_t offset, double mean = 0) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", offset " << offset);
  const std::vector<double> x = normal<T>(rows * columns, 7, mean);
  const Array<T> memory(x, offset);
  const auto got = in_both_orders([&] {
    Array<float> sums(columns);
    const auto space = scratch(column_sums_scratch_bytes<T>(rows, columns));
    column_sums(rows, columns, memory.data(), sums.data(), space.data(), nullptr);
    return sums;
  });
  std::vector<double> wanted(static_cast<std::size_t>(columns));
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    wanted[i % wanted.size()] += x[i];
    largest = std::max(largest, std::abs(x[i]));
  }
  // A few roundings of the sum of magnitudes, however many rows there are.
  expect_close(got, wanted,
               6e-8 * 16 * largest * std::sqrt(double(rows)) + 2e-7 * std::abs(mean) * double(rows),
               "sums");
}

TYPED_TEST(ColumnSums, EveryShape) {
  for (const std::int64_t columns : {1, 2, 3, 4, 8, 12, 24, 31, 64, 100, 264})
    for (const std::int64_t rows : {1, 2, 7, 33, 300}) expect_sums<TypeParam>(rows, columns, 0);
}

TYPED_TEST(ColumnSums, SeveralSections) {
  expect_sums<TypeParam>(5000, 3, 0);
  expect_sums<TypeParam>(4099, 16, 0);
  expect_sums<TypeParam>(1031, 64, 0);
}

TYPED_TEST(ColumnSums, MoreTilesThanBlocks) { expect_sums<TypeParam>(3, 150'000, 0); }

TYPED_TEST(ColumnSums, UnalignedRows) {
  expect_sums<TypeParam>(100, 16, 1);
  expect_sums<TypeParam>(2000, 8, 3);
}

TYPED_TEST(ColumnSums, ManyRowsLoseNothing) { expect_sums<TypeParam>(100'000, 2, 0, 3); }

// Where y is 0 or less nothing passes; where it is NaN all does. dx takes the place of dy, or not.
template <class T>
void expect_masked_sums(std::int64_t rows, std::int64_t columns, std::int64_t offset,
                        bool in_place) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", offset " << offset);
  std::vector<double> y = normal<T>(rows * columns, 8);
  y.front() = 0;
  y.back() = NAN;
  const std::vector<double> dy = normal<T>(rows * columns, 9);
  std::vector<double> passed(dy.size());
  for (std::size_t i = 0; i < dy.size(); ++i) passed[i] = y[i] <= 0 ? 0 : dy[i];
  const Array<T> output(y, offset);
  Array<T> dx(rows * columns, offset);
  const auto got = in_both_orders([&] {
    Array<T> gradient(dy, offset);
    Array<float> sums(columns);
    const auto space = scratch(column_sums_scratch_bytes<T>(rows, columns));
    T* const to = in_place ? gradient.data() : dx.data();
    relu_backward_sums<T>(rows, columns, output.data(), gradient.data(), to, sums.data(),
                          space.data(), nullptr);
    if (in_place) std::copy(to, to + rows * columns, dx.data());
    return sums;
  });
  expect_close(dx, passed, 0, "dx");
  const Array<T> masked(passed, offset);
  Array<float> sums(columns);
  const auto space = scratch(column_sums_scratch_bytes<T>(rows, columns));
  column_sums<T>(rows, columns, masked.data(), sums.data(), space.data(), nullptr);
  const std::vector<double> wanted(sums.data(), sums.data() + columns);
  expect_close(got, wanted, 1e-6 * std::sqrt(double(rows)), "sums");
}

TYPED_TEST(ColumnSums, OfWhatReluLetsPass) {
  for (const bool in_place : {false, true}) {
    for (const std::int64_t columns : {1, 3, 8, 31, 64})
      for (const std::int64_t rows : {1, 7, 300})
        expect_masked_sums<TypeParam>(rows, columns, 0, in_place);
    expect_masked_sums<TypeParam>(4099, 16, 0, in_place);
    expect_masked_sums<TypeParam>(100, 16, 1, in_place);
  }
}

}  // namespace column_sums_test
}  // namespace hetpipe::cuda
