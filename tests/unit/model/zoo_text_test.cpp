// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/zoo_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "runtime/model/parameters.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace zoo_text_test {

using testing::HasSubstr;

int count_of(const Model& model, const std::string& ending) {
  return static_cast<int>(std::ranges::count_if(
      model.layers(), [&](const ModelLayer& layer) { return layer.name.ends_with(ending); }));
}

TEST(ZooText, Gpt2IsAsPublished) {
  const Model model = make_model("gpt2", {1024}, 50257);
  EXPECT_EQ(model.parameter_count(), 124'439'808);
  EXPECT_EQ(count_of(model, ".attn"), 12);
  EXPECT_EQ(model.output_shape(model.layer_count() - 2, 2), (Shape{2, 1024, 50257}));
  // The position of every token that it could be given, and its own vocabulary, whatever the
  // data's.
  EXPECT_EQ(make_model("gpt2", {64}, 65).parameter_count(), 124'439'808);
  EXPECT_EQ(make_model("gpt2", {64}, 65).classes(), 50257);
}

// Words, positions, a norm; 12 layers of queries to values, projection, two norms and the feed-
// forward; the head's dense layer, norm and bias. BERT's 109,482,240 are these without the head's
// 622,650 but with token types (2 x 768) and the pooler (768 x 768 + 768).
TEST(ZooText, BertIsAsPublishedButForItsHead) {
  const std::int64_t f = 768, vocabulary = 30522;
  const std::int64_t below = (vocabulary + 512) * f + 2 * f;
  const std::int64_t layer = (3 * f * f + 3 * f) + (f * f + f) + 4 * f + (8 * f * f + 5 * f);
  const std::int64_t head = f * f + f + 2 * f + vocabulary;
  const std::int64_t count = make_model("bert-base", {512}, vocabulary).parameter_count();
  EXPECT_EQ(count, below + 12 * layer + head);
  EXPECT_EQ(count, 109'512'762);
  EXPECT_EQ(count - head + 2 * f + f * f + f, 109'482'240);
}

TEST(ZooText, GnmtHasEightResidualLstmLayers) {
  const Model model = make_model("gnmt-8", {50}, 32000);
  EXPECT_EQ(count_of(model, ".lstm"), 8);
  EXPECT_EQ(count_of(model, ".add"), 6);
  EXPECT_EQ(model.parameter_count(), 2 * 32000LL * 1024 + 32000 + 8 * (2 * 1024LL * 4096 + 4096));
}

TEST(ZooText, EveryModelEndsInItsLossOverTokens) {
  for (const std::string& name : text_model_names()) {
    SCOPED_TRACE(name);
    const Model model = make_model(name, {48}, 65);
    EXPECT_NO_THROW(model.check_complete());
    EXPECT_EQ(model.layer(model.layer_count() - 1).name, "loss");
    EXPECT_EQ(model.output_shape(model.layer_count() - 2, 3), (Shape{3, 48, model.classes()}));
    EXPECT_EQ(model.labels_per_sample(), 48);
    EXPECT_EQ(model.vocabulary(), model.classes());
    if (name.ends_with("-tiny")) {
      EXPECT_EQ(model.classes(), 65);
      EXPECT_LT(model.parameter_count(), 500'000);
    }
  }
}

// A model that sees all tokens would see a label that follows.
TEST(ZooText, ModelsThatSeeAllTokensLearnMaskedOnes) {
  for (const std::string& name : text_model_names()) {
    SCOPED_TRACE(name);
    const Model model = make_model(name, {48}, 65);
    EXPECT_EQ(model.sees_all_tokens(), name.starts_with("bert"));
    EXPECT_EQ(learns_masked_tokens(name), model.sees_all_tokens());
    EXPECT_EQ(model.predictions_per_sample(), model.sees_all_tokens() ? 7 : 48);  // 15 % of 48
  }
  EXPECT_EQ(make_model("lenet", {8, 8, 1}, 4).predictions_per_sample(), 1);
  EXPECT_FALSE(learns_masked_tokens("lenet"));
}

// Section 2.3: residual layers' weights are scaled by 1/sqrt(N) at the start, N residual layers.
TEST(ZooText, Gpt2StartsWithSmallerResiduals) {
  const Model model = make_model("gpt2-tiny", {16}, 65);
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  std::vector<float> values(static_cast<std::size_t>(layout.count()));
  fill_initial(layout, 3, values);
  int seen = 0;
  for (const ParameterEntry& entry : layout.entries()) {
    if (entry.shape.name != "weight") continue;
    double squares = 0;
    for (std::int64_t e = entry.offset; e < entry.offset + entry.count; ++e) {
      squares += static_cast<double>(values[static_cast<std::size_t>(e)]) *
                 static_cast<double>(values[static_cast<std::size_t>(e)]);
    }
    const bool residual = entry.name.ends_with("proj/weight");
    const double n = static_cast<double>(entry.count);
    const double deviation = 0.02 / (residual ? std::sqrt(2.0 * 4) : 1);
    // Five standard errors of an estimated deviation.
    EXPECT_NEAR(std::sqrt(squares / n) / deviation, 1, 5 / std::sqrt(2 * n)) << entry.name;
    ++seen;
  }
  EXPECT_EQ(seen, 3 + 4 * 4);
}

TEST(ZooText, RefusesWhatItCannotTake) {
  const auto refusal = [](const std::string& name, const Shape& sample, int classes) {
    try {
      make_model(name, sample, classes);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal("gpt2", {1024}, 65), "accepted");
  EXPECT_THAT(refusal("gpt2", {1025}, 65), HasSubstr("1025 tokens (it has 1024 positions)"));
  EXPECT_THAT(refusal("gpt2", {64}, 50258), HasSubstr("its vocabulary has 50257"));
  EXPECT_THAT(refusal("gpt2-tiny", {28, 28, 1}, 10), HasSubstr("it takes tokens, (T)"));
  EXPECT_THAT(refusal("lenet", {64}, 10), HasSubstr("this model takes images"));
  EXPECT_THAT(refusal("gpt2-tiny", {64}, 1), HasSubstr("1 classes"));
  EXPECT_THAT(refusal("gpt2-tin", {64}, 65), HasSubstr("did you mean 'gpt2-tiny'"));
}

}  // namespace zoo_text_test
}  // namespace hetpipe
