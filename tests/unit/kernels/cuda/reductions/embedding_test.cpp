// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/embedding.h"

#include "kernels/reference/embedding.h"
#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace embedding_test {

using namespace test;
using Numbers = std::vector<double>;

template <class T>
class OwnEmbedding : public testing::Test {};
TYPED_TEST_SUITE(OwnEmbedding, ElementTypes);

template <class T>
void expect_embedding(const EmbeddingSizes& s, std::int64_t offset) {
  SCOPED_TRACE(testing::Message() << s.rows << " of " << s.vocabulary << " x " << s.features);
  std::mt19937 random(71);
  Numbers tokens(static_cast<std::size_t>(s.rows));
  // Half of the rows have one of three tokens.
  for (double& t : tokens)
    t = random() % (random() % 2 == 0 ? std::min<std::int64_t>(3, s.vocabulary) : s.vocabulary);
  const Numbers weight = normal<float>(s.vocabulary * s.features, 72),
                dy = normal<T>(s.rows * s.features, 73);
  const Array<float> device_tokens(tokens), weights(weight, s.rows % 3);  // anywhere
  const Array<T> gradients(dy, offset);
  const Array<std::int32_t> outside(std::vector<int>{0});
  const auto y = in_both_orders([&] {
    Array<T> r(s.rows * s.features, offset);
    embedding_forward(s, device_tokens.data(), weights.data(), r.data(), outside.data(), nullptr);
    return r;
  });
  Numbers wanted(dy.size());
  reference::embedding_forward<double>(s.rows, s.vocabulary, s.features, tokens.data(),
                                       weight.data(), wanted.data());
  expect_close(y, wanted, 0, "y");

  const auto dweight = in_both_orders([&] {
    Array<float> r(s.vocabulary * s.features, s.rows % 3);
    const auto space = scratch(embedding_scratch_bytes(s));
    embedding_weight_gradient(s, device_tokens.data(), gradients.data(), r.data(), outside.data(),
                              space.data(), nullptr);
    return r;
  });
  const auto of = reference::rows_by_token<double>(s.rows, s.vocabulary, tokens.data());
  Numbers wanted_dweight(weight.size());
  reference::embedding_weight_gradient<double>(s.features, of, 0, s.vocabulary, dy.data(),
                                               wanted_dweight.data());
  expect_close(dweight, wanted_dweight, 1e-6, "dweight");
  EXPECT_EQ(outside.data()[0], 0);
}

TYPED_TEST(OwnEmbedding, EveryShape) {
  for (const std::int64_t features : {1, 3, 8, 20, 64})
    for (const std::int64_t vocabulary : {1, 7, 300})
      for (const std::int64_t rows : {1, 10, 1100})
        expect_embedding<TypeParam>({rows, vocabulary, features}, 0);
  expect_embedding<TypeParam>({30, 11, 16}, 1);
}

TYPED_TEST(OwnEmbedding, TokensOutsideAreReported) {
  const EmbeddingSizes s{3, 4, 8};
  for (const float bad : {-1.0f, 4.0f, 1e20f, NAN}) {
    const Array<float> tokens(std::vector<float>{1, bad, 3});
    const Array<float> weight(Numbers(32, 1.0)), dweight(32);
    const Array<TypeParam> y(24), dy(Numbers(24, 1.0));
    const Array<std::int32_t> forward(std::vector<int>{0}), backward(std::vector<int>{0});
    embedding_forward(s, tokens.data(), weight.data(), y.data(), forward.data(), nullptr);
    EXPECT_EQ(forward.data()[0], 1);
    for (std::size_t i = 0; i < 24; ++i) {
      EXPECT_EQ(std::isnan(y.numbers()[i]), i / 8 == 1);
      if (i / 8 != 1) {
        EXPECT_EQ(y.numbers()[i], 1.0);
      }
    }
    const auto space = scratch(embedding_scratch_bytes(s));
    embedding_weight_gradient(s, tokens.data(), dy.data(), dweight.data(), backward.data(),
                              space.data(), nullptr);
    EXPECT_EQ(backward.data()[0], 1);
    Numbers sums(32, 0.0);
    std::fill_n(sums.begin() + 8, 8, 1.0);
    std::fill_n(sums.begin() + 24, 8, 1.0);
    EXPECT_EQ(dweight.numbers(), sums);
  }
}

TYPED_TEST(OwnEmbedding, Positions) {
  for (const std::int64_t batch : {1, 3, 40})
    for (const std::int64_t count : {1, 6, 64, 1000})
      for (const std::int64_t beyond : {0, 7})
        for (const std::int64_t offset : {0, 1}) {
          SCOPED_TRACE(testing::Message() << batch << " x " << count << " of " << count + beyond);
          const std::int64_t weights = count + beyond;
          const Numbers x = normal<TypeParam>(batch * count, 74),
                        weight = normal<float>(weights, 75);
          const Array<float> device_weight(weight, batch % 4);
          const Array<TypeParam> device(x, offset);
          const auto y = in_both_orders([&] {
            Array<TypeParam> r(batch * count, offset);
            position_forward(batch, count, device.data(), device_weight.data(), r.data(), nullptr);
            return r;
          });
          const Array<TypeParam> in_place(x, offset);
          position_forward(batch, count, in_place.data(), device_weight.data(), in_place.data(),
                           nullptr);
          EXPECT_TRUE(in_place.bits() == y.bits());
          Numbers wanted(x.size()), wanted_dweight(weight.size());
          reference::position_forward<double>(batch, count, x.data(), weight.data(), wanted.data());
          expect_close(y, wanted, 3e-7, "y");
          const auto dweight = in_both_orders([&] {
            Array<float> r(weights);
            const auto space = scratch(position_scratch_bytes<TypeParam>(batch, count));
            position_weight_gradient(batch, count, weights, device.data(), r.data(), space.data(),
                                     nullptr);
            return r;
          });
          reference::position_weight_gradient<double>(batch, count, 0, weights, x.data(),
                                                      wanted_dweight.data());
          expect_close(dweight, wanted_dweight, 2e-6, "dweight");
        }
}

}  // namespace embedding_test
}  // namespace hetpipe::cuda
