// SPDX-License-Identifier: Apache-2.0
#include "launch/generate/text_model.h"

#include <gmock/gmock.h>

#include <memory>

#include "base/error.h"
#include "kernels/devices.h"
#include "runtime/model/parameters.h"
#include "runtime/model/zoo.h"

// What follows a context, of any length.
namespace hetpipe {
namespace text_model_test {

using ::testing::HasSubstr;

// A model with its initial weights.
struct Made {
  explicit Made(const std::string& name, std::int64_t tokens, int classes = 7)
      : model(make_model(name, {tokens}, classes)),
        layout(ParameterLayout::parameters(model, 0, model.layer_count())),
        weights(static_cast<std::size_t>(layout.count())),
        device(make_device("reference", 1)) {
    fill_initial(layout, 3, weights);
    whole = std::make_unique<WholeModel>(model, weights, std::span<const float>(), *device);
  }
  Model model;
  ParameterLayout layout;
  std::vector<float> weights;
  std::unique_ptr<Device> device;
  std::unique_ptr<WholeModel> whole;
};

// gnmt-tiny has no positions: for texts of three tokens it is the same network, without padding.
TEST(TextModel, APaddedContextIsThatOfAShorterModel) {
  Made eight("gnmt-tiny", 8), three("gnmt-tiny", 3);
  ASSERT_EQ(eight.weights, three.weights);
  TextModel longer(eight.model, *eight.whole), exact(three.model, *three.whole);
  const std::vector<int> context{4, 0, 6};
  const std::vector<float> padded = longer.next(context);
  ASSERT_EQ(padded.size(), 7u);
  EXPECT_EQ(padded, exact.next(context));
  EXPECT_NE(padded, longer.next(std::vector{4, 0, 5}));
}

// Of a longer context the last T tokens.
TEST(TextModel, ALongContextIsItsEnd) {
  Made made("gpt2-tiny", 4);
  TextModel text(made.model, *made.whole);
  const std::vector<float> next = text.next(std::vector{1, 2, 3, 4});
  EXPECT_EQ(text.next(std::vector{6, 5, 1, 2, 3, 4}), next);
  EXPECT_NE(text.next(std::vector{6, 5, 1, 2, 3}), next);
}

std::string why_not(const Model& model, WholeModel& whole) {
  try {
    TextModel(model, whole);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(TextModel, RefusesWhatGeneratesNoText) {
  Made bert("bert-tiny", 8);
  EXPECT_THAT(why_not(bert.model, *bert.whole), HasSubstr("sees all tokens"));
  EXPECT_THAT(why_not(make_model("mlp", {2, 2, 1}, 3), *bert.whole),
              HasSubstr("which are no text"));
}

// An LSTM from the end to the start, which no list of attentions knows.
TEST(TextModel, TriesWhetherLaterTokensCount) {
  Model model("forwards", {4}, 5);
  model.add("words", Embedding{.vocabulary = 5, .features = 6});
  model.add("rnn", Recurrent{.hidden = 6});
  model.add("head", Linear{5});
  model.add("loss", SoftmaxCrossEntropy{});
  const auto refused = [&](const Model& of) {
    const auto layout = ParameterLayout::parameters(of, 0, of.layer_count());
    std::vector<float> weights(static_cast<std::size_t>(layout.count()));
    fill_initial(layout, 3, weights);
    for (float& w : weights) w *= 30;
    const auto device = make_device("reference", 1);
    WholeModel whole(of, weights, {}, *device);
    try {
      TextModel(of, whole);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused(model), "");
  Model backwards("backwards", {4}, 5);
  backwards.add("words", Embedding{.vocabulary = 5, .features = 6});
  backwards.add("rnn", Recurrent{.hidden = 6, .reverse = true});
  backwards.add("head", Linear{5});
  backwards.add("loss", SoftmaxCrossEntropy{});
  EXPECT_THAT(refused(backwards), HasSubstr("predicts from later tokens too"));
}

TEST(Vocabulary, BytesAndBack) {
  const Vocabulary vocabulary(std::string("\n ab\xc3", 5));
  EXPECT_EQ(vocabulary.tokens_of("ba \xc3"), (std::vector{3, 2, 1, 4}));
  EXPECT_EQ(vocabulary.byte_of(0), '\n');
  try {
    vocabulary.tokens_of("abc\x01z");
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--prompt: holds byte 0x01, 'c', 'z'"));
  }
}

}  // namespace text_model_test
}  // namespace hetpipe
