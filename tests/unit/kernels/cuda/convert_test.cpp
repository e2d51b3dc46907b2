// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/convert.h"

#include "tests/unit/kernels/cuda/own_test.h"

namespace hetpipe::cuda {
namespace convert_test {

using namespace test;

template <class Types>
class ConvertPairs : public testing::Test {};
template <class From, class To>
struct Pair {
  using Source = From;
  using Target = To;
};
using Pairs = testing::Types<Pair<float, float>, Pair<float, Bf16>, Pair<float, Fp16>,
                             Pair<Bf16, float>, Pair<Bf16, Bf16>, Pair<Bf16, Fp16>,
                             Pair<Fp16, float>, Pair<Fp16, Bf16>, Pair<Fp16, Fp16>>;
TYPED_TEST_SUITE(ConvertPairs, Pairs);

TYPED_TEST(ConvertPairs, EachElementIsRounded) {
  using From = typename TypeParam::Source;
  using To = typename TypeParam::Target;
  in_both_orders([] {
    for (const std::int64_t count : kCounts) {
      for (const std::int64_t x_offset : {0, 1}) {
        for (const std::int64_t y_offset : {0, 3}) {
          Array<From> x(draws<From>(1, count), x_offset);
          Array<To> y(count, y_offset);
          convert(x.data(), y.data(), count, nullptr);
          ASSERT_TRUE(same_rounded(y.values(), widened(x.values()))) << count;
        }
      }
    }
  });
}

// More than one round of the grid.
TEST(Convert, ManyElements) {
  const std::int64_t count = (std::int64_t{1} << 23) + 12'345;
  Array<float> x(count);
  for (std::int64_t i = 0; i < count; ++i) x.data()[i] = static_cast<float>(i % 65'521) - 30'000;
  Array<Bf16> y(count);
  convert(x.data(), y.data(), count, nullptr);
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(y[i].bits, Bf16(x[i]).bits) << i;
}

template <class T>
class UnpackSamples : public testing::Test {};
TYPED_TEST_SUITE(UnpackSamples, Elements);

// Every number that samples hold, from every place within a pack.
template <class From, class To, class Unpack, class Value>
void expect_unpacked(const Unpack& unpack, const Value& value) {
  in_both_orders([&] {
    for (const std::int64_t count : {0, 1, 15, 16, 17, 257, 65'536 + 21}) {
      for (const std::int64_t x_offset : {0, 1, 9}) {
        for (const std::int64_t y_offset : {0, 3}) {
          Array<From> x(count, x_offset);
          std::vector<float> wanted;
          for (std::int64_t i = 0; i < count; ++i) {
            x.data()[i] = static_cast<From>(i);
            wanted.push_back(value(x[i], i));
          }
          Array<To> y(count, y_offset);
          unpack(x.data(), y.data(), count, nullptr);
          ASSERT_TRUE(same_rounded(y.values(), wanted)) << count;
        }
      }
    }
  });
}

TYPED_TEST(UnpackSamples, PixelsByTheirScale) {
  const auto as = [](const PixelScale& scale) {
    expect_unpacked<std::uint8_t, TypeParam>(
        [&](const std::uint8_t* x, TypeParam* y, std::int64_t count, On on) {
          pixels(x, y, count, scale, on);
        },
        [&](std::uint8_t x, std::int64_t i) {
          const auto c = static_cast<std::size_t>(scale.channels == 0 ? 0 : i % scale.channels);
          const float share = static_cast<float>(x) / 255.0f;
          return scale.channels == 0 ? share : (share - scale.mean[c]) / scale.deviation[c];
        });
  };
  as({});
  as({1, {.5f}, {.25f}});
  as({3, {.485f, .456f, .406f}, {.229f, .224f, .225f}});
}
TYPED_TEST(UnpackSamples, TokensAreTheirNumbers) {
  expect_unpacked<std::uint16_t, TypeParam>(
      tokens<TypeParam>, [](std::uint16_t x, std::int64_t) { return static_cast<float>(x); });
}

template <class T>
class ConvertOwn : public testing::Test {};
TYPED_TEST_SUITE(ConvertOwn, Elements);

struct Weights {
  std::int64_t outputs, inputs, taps;
};
const std::vector<Weights> kWeights = {{1, 1, 1},    {3, 5, 1},   {2, 3, 9},    {64, 3, 49},
                                       {5, 700, 9},  {2, 37, 25}, {3, 2, 4100}, {2, 1, 4096},
                                       {1, 4097, 2}, {7, 8, 4},   {130, 16, 3}};

TYPED_TEST(ConvertOwn, WeightsToTheOrderOfTapsAndBack) {
  in_both_orders([] {
    for (const Weights& w : kWeights) {
      SCOPED_TRACE(testing::Message() << w.outputs << ", " << w.inputs << ", " << w.taps);
      const std::int64_t count = w.outputs * w.inputs * w.taps;
      Array<float> weights(normal_values(2, count), 1);
      Array<TypeParam> krsc(count, 1);
      weights_to_krsc(weights.data(), krsc.data(), w.outputs, w.inputs, w.taps, nullptr);
      std::vector<TypeParam> wanted;
      for (std::int64_t o = 0; o < w.outputs; ++o)
        for (std::int64_t t = 0; t < w.taps; ++t)
          for (std::int64_t i = 0; i < w.inputs; ++i)
            wanted.push_back(TypeParam(weights[(o * w.inputs + i) * w.taps + t]));
      ASSERT_TRUE(same(krsc.values(), wanted));

      Array<float> gradient(count);
      gradient_from_krsc(krsc.data(), gradient.data(), w.outputs, w.inputs, w.taps, nullptr);
      std::vector<float> back = weights.values();
      for (float& value : back) value = static_cast<float>(TypeParam(value));
      ASSERT_TRUE(same(gradient.values(), back));
    }
  });
}

}  // namespace convert_test
}  // namespace hetpipe::cuda
