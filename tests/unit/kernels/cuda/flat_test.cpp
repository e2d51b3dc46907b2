// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/flat.h"

#include <cmath>

#include "base/random.h"
#include "kernels/clip_step.h"
#include "kernels/cuda/own/sum_of_squares.h"
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

constexpr Doubles kDoubles[] = {Doubles::fast, Doubles::slow};

// Blocks of 4096 elements, eight or thirty-two of which one warp adds up.
TEST_F(Flat, SquaresAreAddedInTheGivenOrder) {
  std::vector<std::int64_t> counts = kCounts;
  for (const std::int64_t more :
       {4095, 4096, 4097, 8191, 32'768, 32'769, 36'865, 100'003, 131'072, 131'073, 140'000}) {
    counts.push_back(more);
  }
  in_both_orders([&] {
    for (const std::int64_t count : counts) {
      for (const std::int64_t offset : {0, 1}) {
        Array<float> x(normal_values(2, count), offset);
        double wanted = -1;
        reference_->sum_of_squares(*stream_, &wanted, x.data(), count);
        for (const Doubles doubles : kDoubles) {
          Array<double> scratch(
              std::vector<double>(static_cast<std::size_t>(squares_scratch(count)), std::nan("")));
          Array<double> sum(1);
          sum_of_squares(sum.data(), x.data(), count, scratch.data(), doubles, nullptr);
          ASSERT_EQ(std::bit_cast<std::uint64_t>(sum[0]), std::bit_cast<std::uint64_t>(wanted))
              << count;
        }
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
    for (const Doubles doubles : kDoubles) {
      Array<double> sum(1);
      sum_of_squares(sum.data(), x.data(), count, scratch.data(), doubles, nullptr);
      EXPECT_EQ(sum[0], wanted);
    }
  });
}

// Of all exponents beside one another, ties, the least and the largest numbers: to the bits of the
// host's doubles.
TEST(SumsOfSquares, ByIntegersHaveTheBitsOfDoubles) {
  const std::uint32_t edges[] = {0,           1,           2,           0x7fffffu,   0x800000u,
                                 0x800001u,   0x3f800000u, 0x3f800001u, 0x3fffffffu, 0x3fb504f3u,
                                 0x24800000u, 0x32000000u, 0x7f7fffffu, 0x7f000001u};
  int ties = 0;
  for (std::uint64_t round = 0; round < 20'000; ++round) {
    SumOfSquares sum;
    double wanted = 0;
    const auto reach = static_cast<std::uint32_t>(1 + round % 60);  // of exponents
    for (std::uint64_t i = 0; i < 40; ++i) {
      const std::uint32_t low = random_bits(round, 2 * i), kind = random_bits(round, 2 * i + 1);
      std::uint32_t bits = (low & 0x807fffffu) | ((127 - reach / 2 + (low >> 23) % reach) << 23);
      if (kind >> 29 == 0) bits = edges[kind % std::size(edges)];
      if (kind >> 29 == 1) bits &= 0xff800000u;  // powers of two: their squares lead to ties
      const float x = std::bit_cast<float>(bits);
      const double square = static_cast<double>(x) * static_cast<double>(x);
      const double before = wanted;
      wanted += square;
      // What two doubles lose in their sum is a double.
      const double taken = wanted - before;
      const double lost = (before - (wanted - taken)) + (square - taken);
      ties += lost != 0 && std::abs(lost) * 2 == std::nextafter(wanted, HUGE_VAL) - wanted;
      sum.add(x);
      ASSERT_EQ(sum.bits(), std::bit_cast<std::uint64_t>(wanted)) << round << " " << i;
    }
  }
  EXPECT_GT(ties, 100);
}

TEST(SumsOfSquares, WhatIsNoNumberStaysVisible) {
  SumOfSquares sum;
  sum.add(3);
  sum.add(-HUGE_VALF);
  EXPECT_EQ(std::bit_cast<double>(sum.bits()), HUGE_VAL);
  sum.add(std::nanf(""));
  EXPECT_TRUE(std::isnan(std::bit_cast<double>(sum.bits())));
  sum.add(1);
  EXPECT_TRUE(std::isnan(std::bit_cast<double>(sum.bits())));
}

TEST(SumsOfSquares, DoublesAreFastOnDataCentreCards) {
  for (const int major : {6, 7, 8, 9, 10}) EXPECT_EQ(doubles_of(major, 0), Doubles::fast);
  EXPECT_EQ(doubles_of(6, 1), Doubles::slow);
  EXPECT_EQ(doubles_of(7, 5), Doubles::slow);
  EXPECT_EQ(doubles_of(8, 6), Doubles::slow);
  EXPECT_EQ(doubles_of(8, 9), Doubles::slow);
  EXPECT_EQ(doubles_of(12, 0), Doubles::slow);
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
