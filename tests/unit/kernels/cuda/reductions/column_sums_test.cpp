// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/column_sums.h"

#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace {

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

}  // namespace
}  // namespace hetpipe::cuda
