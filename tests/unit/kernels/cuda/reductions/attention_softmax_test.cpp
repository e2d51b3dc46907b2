// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/attention_softmax.h"

#include <limits>

#include "kernels/reference/attention.h"
#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace attention_softmax_test {

using namespace test;
using Numbers = std::vector<double>;

// Types of the scores and of the probabilities.
template <class S_, class T_>
struct Types {
  using S = S_;
  using T = T_;
};
template <class P>
class AttentionSoftmax : public testing::Test {};
using Pairs = testing::Types<Types<float, float>, Types<float, Bf16>, Types<float, Fp16>,
                             Types<Bf16, Bf16>, Types<Fp16, Fp16>>;
TYPED_TEST_SUITE(AttentionSoftmax, Pairs);

// The reference of the whole layer, one head of width `tokens`: with keys and values the unit
// matrix, queries are scores, outputs are probabilities, and dq is dS.
struct Reference {
  Numbers probabilities, dscores;

  Reference(const AttentionRows& rows, const Numbers& scores, const Numbers& dprobabilities) {
    const std::int64_t t = rows.tokens;
    const reference::AttentionSizes s{rows.rows / t, t, t, 1, rows.causal};
    Numbers x(static_cast<std::size_t>(3 * rows.rows * t)), dx(x.size());
    for (std::int64_t r = 0; r < rows.rows; ++r)
      for (std::int64_t c = 0; c < t; ++c) {
        const auto at = [&](std::int64_t part) {
          return static_cast<std::size_t>((r * 3 + part) * t + c);
        };
        // The reference's own scale is undone.
        const double scale = double{rows.scale} / s.scale();
        x[at(0)] = scores[static_cast<std::size_t>(r * t + c)] * scale;
        x[at(1)] = x[at(2)] = r % t == c ? 1 : 0;
      }
    probabilities.resize(scores.size());
    dscores.resize(scores.size());
    Numbers y(scores.size());
    reference::attention_forward<double>(s, x.data(), probabilities.data(), true, y.data());
    reference::attention_backward<double>(s, x.data(), probabilities.data(), dprobabilities.data(),
                                          dx.data());
    for (std::int64_t r = 0; r < rows.rows; ++r)
      for (std::int64_t c = 0; c < t; ++c)
        dscores[static_cast<std::size_t>(r * t + c)] =
            dx[static_cast<std::size_t>(r * 3 * t + c)] / s.scale() * double{rows.scale};
  }
};

template <class P>
void expect_softmax(std::int64_t matrices, std::int64_t tokens, bool causal, std::int64_t offset) {
  using S = typename P::S;
  using T = typename P::T;
  SCOPED_TRACE(testing::Message() << matrices << " of " << tokens << ", causal " << causal);
  const AttentionRows rows{matrices * tokens, tokens, 0.125f, causal};
  const std::int64_t count = matrices * tokens * tokens;
  Numbers scores = normal<S>(count, 51, 0, 10), dprobabilities = normal<S>(count, 52);
  const Reference wanted(rows, scores, dprobabilities);
  // What a token does not see must not matter.
  for (std::int64_t i = 0; i < count; ++i)
    if (causal && i % tokens > i / tokens % tokens)
      scores[static_cast<std::size_t>(i)] = dprobabilities[static_cast<std::size_t>(i)] =
          std::nan("");
  const Array<S> s(scores, offset), dp(dprobabilities, offset);
  const auto p = in_both_orders([&] {
    Array<T> r(count, offset);
    attention_softmax_forward(rows, s.data(), r.data(), nullptr);
    return r;
  });
  expect_close(p, wanted.probabilities, 2e-6, "P");
  const auto ds = in_both_orders([&] {
    Array<T> r(count, offset);
    attention_softmax_backward(rows, p.data(), dp.data(), r.data(), nullptr);
    return r;
  });
  // P itself was rounded to T.
  expect_close(ds, wanted.dscores, 1e-6 + 4 * rounding<T>() * double{rows.scale}, "dS");
  if constexpr (std::is_same_v<S, T>) {
    const Array<T> forward(scores, offset), backward(dprobabilities, offset);
    attention_softmax_forward(rows, forward.data(), forward.data(), nullptr);
    EXPECT_TRUE(forward.bits() == p.bits());
    attention_softmax_backward(rows, p.data(), backward.data(), backward.data(), nullptr);
    EXPECT_TRUE(backward.bits() == ds.bits());
  }
}

TYPED_TEST(AttentionSoftmax, EveryShape) {
  for (const std::int64_t tokens : {1, 2, 3, 8, 16, 33, 64})
    for (const bool causal : {false, true}) expect_softmax<TypeParam>(3, tokens, causal, 0);
  expect_softmax<TypeParam>(2, 64, true, 1);
}

// The first rows of long sequences: each by a whole block, held in registers or not.
TYPED_TEST(AttentionSoftmax, LongRows) {
  using S = typename TypeParam::S;
  using T = typename TypeParam::T;
  for (const std::int64_t tokens : {1024, 1025, 1032, 8192, 8200, 8211})
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens, causal " << causal);
      const AttentionRows rows{3, tokens, 0.5f, causal};
      const Numbers scores = normal<S>(rows.rows * tokens, 53, 1, 3),
                    gradients = normal<S>(rows.rows * tokens, 54);
      const Array<S> s(scores), dp(gradients);
      Numbers wanted(scores.size(), 0.0), wanted_ds(scores.size(), 0.0);
      const auto p = in_both_orders([&] {
        Array<T> r(rows.rows * tokens);
        attention_softmax_forward(rows, s.data(), r.data(), nullptr);
        return r;
      });
      const auto ds = in_both_orders([&] {
        Array<T> r(rows.rows * tokens);
        attention_softmax_backward(rows, p.data(), dp.data(), r.data(), nullptr);
        return r;
      });
      for (std::int64_t t = 0; t < rows.rows; ++t) {
        const auto first = static_cast<std::size_t>(t * tokens);
        const auto end = first + static_cast<std::size_t>(causal ? t + 1 : tokens);
        double sum = 0, mean = 0;
        for (std::size_t i = first; i < end; ++i) sum += wanted[i] = std::exp(scores[i] / 2);
        for (std::size_t i = first; i < end; ++i) {
          wanted[i] /= sum;
          mean += number(p.data()[i]) * gradients[i];
        }
        for (std::size_t i = first; i < end; ++i)
          wanted_ds[i] = number(p.data()[i]) * (gradients[i] - mean) / 2;
      }
      expect_close(p, wanted, 2e-6, "P");
      expect_close(ds, wanted_ds, 2e-6, "dS");
    }
}

TYPED_TEST(AttentionSoftmax, ANanIsSeen) {
  using S = typename TypeParam::S;
  using T = typename TypeParam::T;
  Numbers scores(4, 1.0);
  scores[2] = std::nan("");
  const Array<S> s(scores);
  const Array<T> p(4);
  attention_softmax_forward<S, T>({2, 2, 1, true}, s.data(), p.data(), nullptr);
  EXPECT_EQ(number(p.data()[0]), 1);
  EXPECT_EQ(number(p.data()[1]), 0);
  EXPECT_TRUE(std::isnan(number(p.data()[2])) && std::isnan(number(p.data()[3])));
}

}  // namespace attention_softmax_test
}  // namespace hetpipe::cuda
