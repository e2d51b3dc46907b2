// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/strided.h"

#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace strided_test {

using namespace test;
using Numbers = std::vector<double>;

template <class T>
class StridedKernels : public testing::Test {};
TYPED_TEST_SUITE(StridedKernels, ElementTypes);

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Three loops of 2 x 3 x 4 over samples of 60 elements, backwards along one, with a table.
TYPED_TEST(StridedKernels, CopyFollowsStridesAndTables) {
  using T = TypeParam;
  const std::vector<std::int32_t> table{0, 7, 2, 9};
  const Numbers x = normal<T>(3 * 60, 61);
  for (const bool has_table : {false, true}) {
    StridedCopy copy;
    copy.loop_count = 3;
    copy.elements = 24;
    const std::int64_t extents[] = {2, 3, 4}, from[] = {30, -5, has_table ? 0 : 1},
                       to[] = {1, 2, 6};
    std::copy_n(extents, 3, copy.extents);
    std::copy_n(from, 3, copy.from.strides);
    std::copy_n(to, 3, copy.to.strides);
    copy.from.by_sample = 60;
    copy.from.offset = 12;
    copy.to.by_sample = 25;
    if (has_table) {
      copy.from.table = table.data();
      copy.from.table_strides[2] = 1;
    }
    const Array<T> given(x);
    const auto got = in_both_orders([&] {
      Array<T> y(Numbers(3 * 25, 0.5));
      strided_copy(copy, static_cast<const T*>(given.data()), 3, y.data(), nullptr);
      return y;
    });
    Numbers wanted(3 * 25, 0.5);
    for (std::int64_t n = 0; n < 3; ++n)
      for (std::int64_t i = 0; i < 2; ++i)
        for (std::int64_t j = 0; j < 3; ++j)
          for (std::int64_t k = 0; k < 4; ++k) {
            const std::int64_t step = has_table ? table[at(k)] : k;
            wanted[at(n * 25 + i + 2 * j + 6 * k)] = x[at(n * 60 + 12 + 30 * i - 5 * j + step)];
          }
    expect_close(got, wanted, 0, "copy");
  }
}

// Two parts, one of float and one of T, by each thread and by blocks.
TYPED_TEST(StridedKernels, ReadsAreSummed) {
  using T = TypeParam;
  const std::vector<std::int32_t> starts{0, 2, 2, 5}, entries{3, 0, 1, 1, 2};
  const std::vector<std::int32_t> more_starts{0, 0, 1, 2}, more_entries{1, 0};
  const Numbers x = normal<float>(2 * 4, 62), more = normal<T>(2 * 2, 63);
  const Array<float> floats(x);
  const Array<T> others(more);
  Reads reads;
  reads.parts[0] = {starts.data(), entries.data(), floats.data(), true, 4};
  reads.parts[1] = {more_starts.data(), more_entries.data(), others.data(), false, 2};
  reads.count = 2;
  reads.elements = 3;
  reads.factor = 0.5f;
  Numbers wanted(6), over_samples(3, 1.0);
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t e = 0; e < 3; ++e) {
      double& sum = wanted[at(n * 3 + e)];
      for (auto k = starts[at(e)]; k < starts[at(e + 1)]; ++k) sum += x[at(n * 4 + entries[at(k)])];
      for (auto k = more_starts[at(e)]; k < more_starts[at(e + 1)]; ++k) {
        sum += more[at(n * 2 + more_entries[at(k)])];
      }
      sum *= 0.5;
      over_samples[at(e)] += sum;
    }
  for (const bool many : {false, true}) {
    reads.many = many;
    const auto got = in_both_orders([&] {
      Array<T> y(6);
      sum_reads(reads, 2, y.data(), nullptr);
      return y;
    });
    expect_close(got, wanted, 1e-6, "sums");
    const auto all = in_both_orders([&] {
      Array<float> y(Numbers(3, 1.0));
      sum_reads_of_samples<T>(reads, 2, true, y.data(), nullptr);
      return y;
    });
    expect_close(all, over_samples, 1e-6, "sums over samples");
  }
}

}  // namespace strided_test
}  // namespace hetpipe::cuda
