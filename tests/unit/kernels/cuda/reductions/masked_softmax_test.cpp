// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/masked_softmax.h"

#include <limits>

#include "base/random.h"
#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace masked_softmax_test {

using namespace test;
using Numbers = std::vector<double>;

template <class T>
class MaskedSoftmaxKernels : public testing::Test {};
TYPED_TEST_SUITE(MaskedSoftmaxKernels, ElementTypes);

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class T>
struct Outputs {
  Array<T> softmax, dropped;
  std::vector<std::byte> bits() const { return bits_of(softmax, dropped); }
};

enum class MaskOf { nothing, floats, samples, table };

// Rows of two samples and two heads against sums in double.
template <class T>
void expect_rows(std::int64_t queries, std::int64_t keys, bool causal, MaskOf masked, float rate) {
  SCOPED_TRACE(testing::Message() << queries << " x " << keys << (causal ? ", causal" : "")
                                  << ", mask " << static_cast<int>(masked) << ", rate " << rate);
  ScoreRows s{
      .samples = 2, .heads = 2, .queries = queries, .keys = keys, .scale = 0.25f, .causal = causal};
  const std::int64_t count = s.rows() * keys;
  const Numbers scores = normal<float>(count, 41, 0, 10), dp = normal<float>(count, 42);
  // By query and key; by sample and key; by the difference of query and key.
  Numbers mask = normal<T>(queries * keys + 2 * keys, 43);
  mask[1] = -std::numeric_limits<double>::infinity();
  for (std::int64_t k = 0; k < keys; ++k) {  // the last query sees nothing
    mask[at((queries - 1) * keys + k)] = -std::numeric_limits<double>::infinity();
  }
  const Array<float> float_mask(mask);
  const Array<T> own_mask(mask);
  std::vector<std::int32_t> distances;
  for (std::int64_t i = 0; i < queries * keys; ++i) {
    distances.push_back(static_cast<std::int32_t>(i / keys + keys - 1 - i % keys));
  }
  const auto added = [&](std::int64_t n, std::int64_t q, std::int64_t k) {
    switch (masked) {
      case MaskOf::floats:
        return mask[at(q * keys + k)];
      case MaskOf::samples:
        return mask[at(n * keys + k)];
      case MaskOf::table:
        return mask[at(distances[at(q * keys + k)])];
      default:
        return 0.0;
    }
  };
  if (masked == MaskOf::floats) s.mask = {float_mask.data(), true, 0, 0, {0, keys, 1}, nullptr, {}};
  if (masked == MaskOf::samples) s.mask = {own_mask.data(), false, keys, 0, {0, 0, 1}, nullptr, {}};
  if (masked == MaskOf::table) {
    s.mask = {float_mask.data(), true, 0, 0, {0, 0, 0}, distances.data(), {0, keys, 1}};
  }
  const std::vector<std::uint64_t> sample_keys{7, 9};
  s.rate = rate;
  if (rate > 0) s.sample_keys = sample_keys.data();

  Numbers softmax(at(count)), factors(at(count), 1.0), dropped(at(count));
  for (std::int64_t r = 0; r < s.rows(); ++r) {
    const std::int64_t n = r / (2 * queries), q = r % queries;
    const std::int64_t seen = causal ? std::min(q + 1, keys) : keys;
    double largest = -HUGE_VAL, sum = 0;
    for (std::int64_t k = 0; k < seen; ++k) {
      softmax[at(r * keys + k)] = scores[at(r * keys + k)] * 0.25 + added(n, q, k);
      largest = std::max(largest, softmax[at(r * keys + k)]);
    }
    for (std::int64_t k = 0; k < seen; ++k) {
      double& p = softmax[at(r * keys + k)];
      sum += p = largest == -HUGE_VAL ? 0 : std::exp(p - largest);
    }
    for (std::int64_t k = 0; k < seen; ++k) {
      const std::int64_t i = r * keys + k;
      if (sum != 0) softmax[at(i)] /= sum;
      if (rate > 0) {
        const auto element = static_cast<std::uint64_t>(i - n * 2 * queries * keys);
        const bool kept = random_uniform(sample_keys[at(n)], element) >= rate;
        factors[at(i)] = kept ? 1 / (1 - double{rate}) : 0;
      }
      dropped[at(i)] = softmax[at(i)] * factors[at(i)];
    }
  }
  const Array<float> given(scores), gradient(dp);
  const auto got = in_both_orders([&] {
    Outputs<T> r{Array<T>(count), Array<T>(rate > 0 ? count : 0)};
    masked_softmax_forward<T>(s, given.data(), r.softmax.data(),
                              rate > 0 ? r.dropped.data() : nullptr, nullptr);
    return r;
  });
  Numbers signs = softmax;
  for (std::int64_t i = 0; i < count; ++i) {
    if (factors[at(i)] == 0) signs[at(i)] = -signs[at(i)];
  }
  expect_close(got.softmax, signs, 2e-6, "softmax");
  if (rate > 0) expect_close(got.dropped, dropped, 4e-6, "dropped");

  const auto back = in_both_orders([&] {
    Outputs<T> r{Array<T>(count), Array<T>(rate > 0 ? count : 0)};
    masked_softmax_backward<T>(s, got.softmax.data(), gradient.data(), r.softmax.data(),
                               rate > 0 ? r.dropped.data() : nullptr, nullptr);
    return r;
  });
  Numbers ds(at(count));
  for (std::int64_t r = 0; r < s.rows(); ++r) {
    double mean = 0;
    const auto p = [&](std::int64_t i) { return std::abs(number(got.softmax.data()[i])); };
    for (std::int64_t i = r * keys; i < (r + 1) * keys; ++i)
      mean += p(i) * factors[at(i)] * dp[at(i)];
    for (std::int64_t i = r * keys; i < (r + 1) * keys; ++i) {
      ds[at(i)] = p(i) * (factors[at(i)] * dp[at(i)] - mean);
    }
  }
  expect_close(back.softmax, ds, 4e-6, "dS");
  if (rate > 0) expect_close(back.dropped, dropped, 4e-6 + rounding<T>(), "dropped again");
}

TYPED_TEST(MaskedSoftmaxKernels, Rows) {
  for (const auto& [queries, keys] : {std::pair{3, 5}, {4, 8}, {2, 33}, {3, 40}}) {
    for (const bool causal : {false, true}) {
      for (const MaskOf mask : {MaskOf::nothing, MaskOf::floats, MaskOf::samples, MaskOf::table}) {
        for (const float rate : {0.0f, 0.3f})
          expect_rows<TypeParam>(queries, keys, causal, mask, rate);
      }
    }
  }
}

// Longer than a warp's registers, and than a block's.
TYPED_TEST(MaskedSoftmaxKernels, LongRows) {
  expect_rows<TypeParam>(1, 1280, false, MaskOf::samples, 0.3f);
  expect_rows<TypeParam>(2, 1283, false, MaskOf::nothing, 0);
  expect_rows<TypeParam>(1, 1600, false, MaskOf::nothing, 0);
  expect_rows<TypeParam>(1, 1301, false, MaskOf::samples, 0);
  expect_rows<TypeParam>(1, 8200, false, MaskOf::samples, 0);
  expect_rows<TypeParam>(1, 10248, false, MaskOf::nothing, 0);
}

}  // namespace masked_softmax_test
}  // namespace hetpipe::cuda
