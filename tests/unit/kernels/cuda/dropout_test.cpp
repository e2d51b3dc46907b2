// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/dropout.h"

#include "kernels/reference/elementwise.h"
#include "tests/unit/kernels/cuda/own_test.h"

namespace hetpipe::cuda {
namespace dropout_test {

using namespace test;

template <class T>
class DropoutKernels : public testing::Test {
 protected:
  // f(samples, their number of elements, offset of some arrays, rate)
  template <class F>
  static void sweep(const F& f) {
    in_both_orders([&] {
      for (const std::int64_t elements : {1, 3, 4, 8, 13, 32, 1021, 4096}) {
        for (const std::int64_t batch : {1, 3}) {
          for (const std::int64_t offset : {0, 1}) {
            for (const float rate : {0.0f, 0.1f, 0.5f, 0.9f}) {
              SCOPED_TRACE(testing::Message() << batch << " samples of " << elements << ", offset "
                                              << offset << ", rate " << rate);
              std::vector<SampleKey> samples;
              for (std::int64_t n = 0; n < batch; ++n) samples.push_back({3, 1000 + 7 * n});
              f(samples, elements, offset, rate);
            }
          }
        }
      }
    });
  }

  static constexpr std::uint64_t kLayer = 0x123456789abcdef0;
  static std::vector<std::uint64_t> keys(const std::vector<SampleKey>& samples) {
    std::vector<std::uint64_t> keys;
    for (const SampleKey& s : samples) keys.push_back(dropout_key(kLayer, s));
    return keys;
  }
};
TYPED_TEST_SUITE(DropoutKernels, Elements);

TYPED_TEST(DropoutKernels, DrawAndApplyAsTheDefinition) {
  this->sweep([&](const std::vector<SampleKey>& samples, std::int64_t elements, std::int64_t offset,
                  float rate) {
    const auto batch = static_cast<std::int64_t>(samples.size()), count = batch * elements;
    Array<std::uint64_t> keys(this->keys(samples));
    Array<TypeParam> x(draws<TypeParam>(1, count), offset), y(count), dx(count);
    Array<std::uint8_t> kept(count, offset);
    Array<std::uint8_t> wanted_kept(count);
    std::vector<float> wanted(static_cast<std::size_t>(count));
    reference::dropout_draw(this->kLayer, samples, elements, rate, wanted_kept.data());
    reference::dropout_apply(count, wanted_kept.data(), 1 / (1 - rate), widened(x.values()).data(),
                             wanted.data());

    dropout_forward<TypeParam>(keys.data(), batch, elements, 0, rate, x.data(), nullptr,
                               kept.data(), y.data(), nullptr);
    ASSERT_TRUE(same(kept.values(), wanted_kept.values()));
    ASSERT_TRUE(same_rounded(y.values(), wanted));
    dropout_backward<TypeParam>(kept.data(), count, rate, x.data(), dx.data(), nullptr, nullptr);
    ASSERT_TRUE(same_rounded(dx.values(), wanted));
    dropout_forward<TypeParam>(keys.data(), batch, elements, 0, rate, x.data(), nullptr,
                               kept.data(), x.data(), nullptr);
    ASSERT_TRUE(same_rounded(x.values(), wanted));
  });
}

TYPED_TEST(DropoutKernels, TakeTheSumBehindThemAlong) {
  this->sweep([&](const std::vector<SampleKey>& samples, std::int64_t elements, std::int64_t offset,
                  float rate) {
    const auto batch = static_cast<std::int64_t>(samples.size()), count = batch * elements;
    Array<std::uint64_t> keys(this->keys(samples));
    Array<TypeParam> x(draws<TypeParam>(1, count), offset), residual(draws<TypeParam>(2, count)),
        y(count), dx(count), dresidual(count);
    Array<std::uint8_t> kept(count, offset), wanted_kept(count);
    std::vector<float> dropped(static_cast<std::size_t>(count));
    reference::dropout_draw(this->kLayer, samples, elements, rate, wanted_kept.data());
    reference::dropout_apply(count, wanted_kept.data(), 1 / (1 - rate), widened(x.values()).data(),
                             dropped.data());
    const std::vector<float> added = widened(residual.values());
    std::vector<float> wanted = dropped;
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += added[i];

    dropout_forward<TypeParam>(keys.data(), batch, elements, 0, rate, x.data(), residual.data(),
                               kept.data(), y.data(), nullptr);
    ASSERT_TRUE(same(kept.values(), wanted_kept.values()));
    ASSERT_TRUE(same_rounded(y.values(), wanted));
    dropout_backward<TypeParam>(kept.data(), count, rate, x.data(), dx.data(), dresidual.data(),
                                nullptr);
    ASSERT_TRUE(same_rounded(dx.values(), dropped));
    ASSERT_TRUE(same(dresidual.values(), x.values()));
    dropout_forward<TypeParam>(keys.data(), batch, elements, 0, rate, x.data(), residual.data(),
                               kept.data(), residual.data(), nullptr);
    ASSERT_TRUE(same_rounded(residual.values(), wanted));
    const std::vector<TypeParam> dy = x.values();
    dropout_backward<TypeParam>(kept.data(), count, rate, x.data(), x.data(), dresidual.data(),
                                nullptr);
    ASSERT_TRUE(same_rounded(x.values(), dropped));
    ASSERT_TRUE(same(dresidual.values(), dy));
  });
}

// Of whole samples and channels, with and without the sum behind them.
TYPED_TEST(DropoutKernels, ElementsShareDraws) {
  this->sweep([&](const std::vector<SampleKey>& samples, std::int64_t elements, std::int64_t offset,
                  float rate) {
    const auto batch = static_cast<std::int64_t>(samples.size()), count = batch * elements;
    for (const std::int64_t draws_of_sample : {std::int64_t{1}, elements}) {
      Array<std::uint64_t> keys(this->keys(samples));
      Array<TypeParam> x(draws<TypeParam>(1, count), offset), y(count);
      Array<std::uint8_t> kept(count, offset), wanted_kept(count);
      std::vector<float> wanted(static_cast<std::size_t>(count));
      reference::dropout_draw(this->kLayer, samples, elements, rate, wanted_kept.data(),
                              draws_of_sample);
      reference::dropout_apply(count, wanted_kept.data(), 1 / (1 - rate),
                               widened(x.values()).data(), wanted.data());
      dropout_forward<TypeParam>(keys.data(), batch, elements, draws_of_sample, rate, x.data(),
                                 nullptr, kept.data(), y.data(), nullptr);
      ASSERT_TRUE(same(kept.values(), wanted_kept.values()));
      ASSERT_TRUE(same_rounded(y.values(), wanted));
      const std::vector<float> added = widened(x.values());
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += added[i];
      dropout_forward<TypeParam>(keys.data(), batch, elements, draws_of_sample, rate, x.data(),
                                 x.data(), kept.data(), y.data(), nullptr);
      ASSERT_TRUE(same_rounded(y.values(), wanted));
    }
  });
}

// A rate that is one of the draws: that element is kept.
TYPED_TEST(DropoutKernels, ADrawOfTheRateItselfIsKept) {
  const std::uint64_t key = 17;
  Array<std::uint64_t> keys(std::vector<std::uint64_t>{key});
  const std::vector<TypeParam> x = draws<TypeParam>(3, 16);
  for (std::uint64_t e = 0; e < 16; ++e) {
    Array<std::uint8_t> kept(16);
    Array<TypeParam> y(16);
    dropout_forward<TypeParam>(keys.data(), 1, 16, 0, random_uniform(key, e), x.data(), nullptr,
                               kept.data(), y.data(), nullptr);
    EXPECT_EQ(kept[static_cast<std::int64_t>(e)], 1);
  }
}

TYPED_TEST(DropoutKernels, AlphaDropoutAsTheDefinition) {
  this->sweep([&](const std::vector<SampleKey>& samples, std::int64_t elements, std::int64_t offset,
                  float rate) {
    const auto batch = static_cast<std::int64_t>(samples.size()), count = batch * elements;
    Array<std::uint64_t> keys(this->keys(samples));
    Array<TypeParam> x(draws<TypeParam>(2, count), offset), y(count);
    Array<std::uint8_t> kept(count, offset);
    Array<std::uint8_t> wanted_kept(count);
    std::vector<float> wanted(static_cast<std::size_t>(count));
    const AlphaDropoutMap map(static_cast<double>(rate));
    reference::dropout_draw(this->kLayer, samples, elements, rate, wanted_kept.data());
    reference::alpha_dropout_forward(count, wanted_kept.data(), map, widened(x.values()).data(),
                                     wanted.data());

    alpha_dropout_forward(keys.data(), batch, elements, rate, x.data(), kept.data(), y.data(),
                          nullptr);
    ASSERT_TRUE(same(kept.values(), wanted_kept.values()));
    ASSERT_TRUE(same_rounded(y.values(), wanted));
    reference::dropout_apply(count, wanted_kept.data(), static_cast<float>(map.scale),
                             widened(x.values()).data(), wanted.data());
    alpha_dropout_backward(kept.data(), count, rate, x.data(), x.data(), nullptr);
    ASSERT_TRUE(same_rounded(x.values(), wanted));
  });
}

}  // namespace dropout_test
}  // namespace hetpipe::cuda
