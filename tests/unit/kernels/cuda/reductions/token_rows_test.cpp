// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/token_rows.h"

#include "kernels/reference/embedding.h"
#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace token_rows_test {

using namespace test;

void expect_rows_by_token(std::int64_t vocabulary, const std::vector<float>& tokens) {
  SCOPED_TRACE(testing::Message() << tokens.size() << " tokens of " << vocabulary);
  const auto rows = static_cast<std::int64_t>(tokens.size());
  const Array<float> device(tokens);
  const auto wanted = reference::rows_by_token(rows, vocabulary, tokens.data());
  const auto memory = in_both_orders([&] {
    auto space = scratch(token_rows_bytes(rows, vocabulary));
    const Array<std::int32_t> outside(std::vector<int>{0});
    const TokenRows got =
        rows_by_token(rows, vocabulary, device.data(), outside.data(), space.data(), nullptr);
    EXPECT_EQ(outside.data()[0], 0);
    EXPECT_TRUE(std::equal(wanted.begin.begin(), wanted.begin.end(), got.begin));
    EXPECT_TRUE(std::equal(wanted.rows.begin(), wanted.rows.end(), got.rows));
    return space;
  });
}

TEST(TokenRows, AsTheReferenceFindsThem) {
  std::mt19937 random(61);
  for (const std::int64_t vocabulary : {1, 2, 255, 256, 257, 50'257, 70'000})
    for (const std::size_t count : {1, 5, 1023, 1024, 1025, 5000}) {
      std::vector<float> tokens(count);
      for (float& t : tokens) t = static_cast<float>(random() % static_cast<unsigned>(vocabulary));
      expect_rows_by_token(vocabulary, tokens);
    }
}

// Those outside are sorted behind the last token, which takes a digit more here.
TEST(TokenRows, TokensOutsideAndDigits) {
  const Array<float> tokens(std::vector<float>{0, 256, 255, -1});
  const auto space = scratch(token_rows_bytes(4, 256));
  const Array<std::int32_t> outside(std::vector<int>{0});
  const TokenRows got = rows_by_token(4, 256, tokens.data(), outside.data(), space.data(), nullptr);
  EXPECT_EQ(outside.data()[0], 1);
  EXPECT_EQ(got.begin[1], 1);
  EXPECT_EQ(got.begin[256], 2);
  EXPECT_EQ(got.rows[0], 0);
  EXPECT_EQ(got.rows[1], 2);
}

TEST(TokenRows, OneTokenEverywhere) {
  expect_rows_by_token(1000, std::vector<float>(3000, 999.0f));
  expect_rows_by_token(1000, std::vector<float>(3000, 0.0f));
}

TEST(TokenRows, TokensOutsideBelongToNone) {
  for (const float bad : {-1.0f, 10.0f, 3e9f, -3e9f, NAN}) {
    const Array<float> tokens(std::vector<float>{3, bad, 9, 3, bad});
    const auto space = scratch(token_rows_bytes(5, 10));
    const Array<std::int32_t> outside(std::vector<int>{0});
    const TokenRows got =
        rows_by_token(5, 10, tokens.data(), outside.data(), space.data(), nullptr);
    EXPECT_EQ(outside.data()[0], 1);
    EXPECT_EQ(got.begin[10], 3);
    EXPECT_EQ(got.begin[4] - got.begin[3], 2);
    EXPECT_EQ(got.rows[0], 0);
    EXPECT_EQ(got.rows[1], 3);
    EXPECT_EQ(got.rows[2], 2);
  }
}

}  // namespace token_rows_test
}  // namespace hetpipe::cuda
