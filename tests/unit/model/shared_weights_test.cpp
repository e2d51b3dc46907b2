// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/model/model.h"
#include "runtime/model/parameters.h"

namespace hetpipe {
namespace shared_weights_test {

using testing::HasSubstr;

constexpr Linear kHead{.output_features = 7, .bias = true, .transposed = true};

// wte 7 x 4, a linear layer 4 x 4 + 4, and a head with the weight of wte and a bias of its own.
Model tied(bool shares = true) {
  Model model("tied", {5}, 7);
  model.add("wte", Embedding{.vocabulary = 7, .features = 4});
  model.add("linear", Linear{4});
  model.add("head", kHead, {1}, shares ? std::optional<int>(0) : std::nullopt);
  model.add("loss", SoftmaxCrossEntropy{});
  return model;
}

std::vector<float> values_of(const ParameterLayout& layout) {
  std::vector<float> values(static_cast<std::size_t>(layout.count()));
  fill_initial(layout, 17, values);
  return values;
}

TEST(SharedWeights, CountOnce) {
  const Model model = tied();
  EXPECT_EQ(model.parameter_count(), 7 * 4 + (4 * 4 + 4) + 7);
  EXPECT_EQ(model.parameter_count(0), 28);
  EXPECT_EQ(model.parameter_count(2), 7);
  EXPECT_EQ(tied(false).parameter_count(), model.parameter_count() + 28);
  EXPECT_EQ(model.shapes(2, 1).parameters.size(), 2u);
  EXPECT_NE(model.fingerprint(), tied(false).fingerprint());
}

TEST(SharedWeights, HaveOnePlaceAndOneForEachUse) {
  const Model model = tied();
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  EXPECT_EQ(layout.count(), model.parameter_count());
  EXPECT_EQ(layout.use_count(), 28);
  EXPECT_EQ(layout.foreign_count(), 0);
  ASSERT_EQ(layout.entries().size(), 5u);
  const ParameterEntry& use = layout.entries()[3];
  EXPECT_EQ(use.name, "wte/weight");
  EXPECT_EQ(use.layer, 2);
  EXPECT_EQ(use.owner_layer, 0);
  EXPECT_EQ(use.offset, 0);
  EXPECT_EQ(layout.owner_offset(use), layout.entries()[0].offset);
  EXPECT_EQ(layout.entries()[4].name, "head/bias");
  EXPECT_EQ(layout.entries()[4].offset, 28 + 20);
  for (const ParameterEntry& entry : layout.entries()) {
    EXPECT_EQ(entry.is_own(), &entry != &use);
  }
  const std::vector<float> values = values_of(layout);
  EXPECT_EQ(layout.weight_of<const float>(use, values.data(), nullptr), values.data());
}

// A part that holds users alone has a place for the weight, one for all of them, and none for its
// optimizer's state.
TEST(SharedWeights, AreForeignWhereTheirOwnerIsNot) {
  Model model("m", {5}, 7);
  model.add("wte", Embedding{.vocabulary = 7, .features = 4});
  model.add("up", kHead, {0}, 0);
  model.add("down", Linear{4});
  model.add("head", kHead, {2}, 0);
  const auto behind = ParameterLayout::parameters(model, 1, 4);
  EXPECT_EQ(behind.count(), 7 + (7 * 4 + 4) + 7);
  EXPECT_EQ(behind.use_count(), 2 * 28);
  EXPECT_EQ(behind.foreign_count(), 28);
  ASSERT_EQ(behind.foreign().size(), 1u);
  EXPECT_EQ(behind.foreign()[0].name, "wte/weight");
  EXPECT_EQ(behind.foreign()[0].owner_layer, 0);
  float own = 0, foreign = 0;
  for (const int layer : {1, 3}) {
    const ParameterEntry& use = behind.of_layer(layer)[0];
    EXPECT_EQ(use.offset, layer == 1 ? 0 : 28);
    EXPECT_EQ(behind.owner_offset(use), -1);
    EXPECT_EQ(behind.weight_of(use, &own, &foreign), &foreign);
  }
  const auto before = ParameterLayout::parameters(model, 0, 1);
  EXPECT_EQ(before.count(), 28);
  EXPECT_EQ(before.use_count() + before.foreign_count(), 0);
}

TEST(SharedWeights, RefusesWhatCannotBeOneTensor) {
  const auto refusal = [](const LayerSpec& spec, int owner) {
    Model model("m", {5}, 7);
    model.add("wte", Embedding{.vocabulary = 7, .features = 4});
    model.add("gelu", Gelu{});
    model.add("user", kHead, {1}, 0);
    try {
      model.add("head", spec, {1}, owner);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(kHead, 0), "accepted");
  EXPECT_THAT(refusal(Linear{7}, 0),
              HasSubstr("has weight (4, 7) and shares that of 'wte', (7, 4)"));
  EXPECT_THAT(refusal(kHead, 1), HasSubstr("shares that of 'gelu', none"));
  EXPECT_THAT(refusal(Gelu{}, 0), HasSubstr("has weight none"));
  EXPECT_THAT(refusal(kHead, 2), HasSubstr("whose weight is another layer's"));
  EXPECT_THAT(refusal(kHead, 3), HasSubstr("layer 3 (only 3 come before it)"));
  EXPECT_THAT(refusal(kHead, -1), HasSubstr("layer -1"));
}

}  // namespace shared_weights_test
}  // namespace hetpipe
