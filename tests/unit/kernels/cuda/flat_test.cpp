// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/flat.h"

#include "kernels/clip_step.h"
#include "kernels/devices.h"
#include "tests/unit/kernels/cuda/own_test.h"

namespace hetpipe::cuda {
namespace cuda_flat_test {

using namespace test;

class Flat : public testing::Test {
 protected:
  std::unique_ptr<Device> reference_ = make_device("reference", 1);
  std::unique_ptr<Stream> stream_ = reference_->make_stream();
};

TEST_F(Flat, FillsAndScales) {
  in_both_orders([&] {
    for (const std::int64_t count : kCounts) {
      for (const std::int64_t offset : {0, 1, 2}) {
        Array<float> x(count, offset);
        fill(x.data(), 2.5f, count, nullptr);
        ASSERT_TRUE(same(x.values(), std::vector<float>(static_cast<std::size_t>(count), 2.5f)));
        Array<float> y(normal_values(1, count), offset);
        std::vector<float> wanted = y.values();
        reference_->scale(*stream_, wanted.data(), 0.3f, count);
        scale(y.data(), 0.3f, count, nullptr);
        ASSERT_TRUE(same(y.values(), wanted));
      }
    }
  });
}

// Blocks of 4096 elements, eight of which one warp adds up.
TEST_F(Flat, SquaresAreAddedInTheGivenOrder) {
  std::vector<std::int64_t> counts = kCounts;
  for (const std::int64_t more : {4095, 4096, 4097, 8191, 32'768, 32'769, 36'865, 100'003}) {
    counts.push_back(more);
  }
  in_both_orders([&] {
    for (const std::int64_t count : counts) {
      for (const std::int64_t offset : {0, 1}) {
        Array<float> x(normal_values(2, count), offset);
        Array<double> scratch(
            std::vector<double>(static_cast<std::size_t>(squares_scratch(count)), std::nan("")));
        Array<double> sum(1);
        double wanted = -1;
        sum_of_squares(sum.data(), x.data(), count, scratch.data(), nullptr);
        reference_->sum_of_squares(*stream_, &wanted, x.data(), count);
        ASSERT_EQ(std::bit_cast<std::uint64_t>(sum[0]), std::bit_cast<std::uint64_t>(wanted))
            << count;
      }
    }
  });
}

// More blocks than the last kernel reads at a time.
TEST_F(Flat, SquaresOfManyElements) {
  const std::int64_t count = 4096 * 1100 + 77;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1013) * 1e-3f;
  std::vector<double> scratch(static_cast<std::size_t>(squares_scratch(count)));
  double wanted = -1;
  reference_->sum_of_squares(*stream_, &wanted, x.data(), count);
  in_both_orders([&] {
    Array<double> sum(1);
    sum_of_squares(sum.data(), x.data(), count, scratch.data(), nullptr);
    EXPECT_EQ(sum[0], wanted);
  });
}

TEST_F(Flat, LimitsANorm) {
  in_both_orders([&] {
    for (const double max_norm : {0.5, 3.0, 1e9}) {
      Array<float> y(normal_values(3, 1003), 1);
      std::vector<float> wanted = y.values();
      const std::vector<double> squares = {800.0, 3.25, 1e-9};
      Array<float> factor(1);
      reference_->limit_norm(*stream_, wanted.data(), squares.data(), 3, max_norm, 1003);
      limit_norm(y.data(), squares.data(), 3, max_norm, 1003, factor.data(), nullptr);
      EXPECT_TRUE(same(y.values(), wanted));
      EXPECT_EQ(factor[0], clip_factor(squares.data(), 3, max_norm));
    }
  });
}

template <class T>
class FlatElements : public testing::Test {};
TYPED_TEST_SUITE(FlatElements, Elements);

TYPED_TEST(FlatElements, AddsAndSums) {
  in_both_orders([] {
    for (const std::int64_t count : kCounts) {
      for (const std::int64_t x_offset : {0, 1}) {
        for (const std::int64_t y_offset : {0, 5}) {
          Array<TypeParam> x(draws<TypeParam>(4, count), x_offset);
          Array<TypeParam> y(draws<TypeParam>(5, count), y_offset);
          const std::vector<TypeParam> y_before = y.values();
          std::vector<float> wanted = widened(x.values());
          for (std::size_t i = 0; i < wanted.size(); ++i) {
            wanted[i] += static_cast<float>(y_before[i]);
          }
          Array<TypeParam> z(count);
          sum(z.data(), x.data(), y.data(), count, nullptr);
          add(y.data(), x.data(), count, nullptr);
          ASSERT_TRUE(same_rounded(z.values(), wanted)) << count;
          ASSERT_TRUE(same_rounded(y.values(), wanted)) << count;
        }
      }
    }
  });
}

}  // namespace cuda_flat_test
}  // namespace hetpipe::cuda
