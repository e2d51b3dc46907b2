// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "base/random.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace parameters_test {

using Make = ParameterLayout (*)(const Model&, int, int);

std::vector<float> initial(const ParameterLayout& layout, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(layout.count()), -99.0f);
  fill_initial(layout, seed, values);
  return values;
}

// Layout and values of [0, n) are those of any cut, one part behind the other.
void expect_parts_add_up(const Model& model, Make make, const std::vector<int>& cuts) {
  const ParameterLayout whole = make(model, 0, model.layer_count());
  std::vector<float> values;
  std::size_t entry = 0;
  for (std::size_t part = 0; part + 1 < cuts.size(); ++part) {
    const ParameterLayout layout = make(model, cuts[part], cuts[part + 1]);
    for (const ParameterEntry& e : layout.entries()) {
      ASSERT_LT(entry, whole.entries().size());
      const ParameterEntry& w = whole.entries()[entry++];
      EXPECT_EQ(e.name, w.name);
      EXPECT_EQ(e.layer, w.layer);
      EXPECT_EQ(e.count, w.count);
      EXPECT_EQ(e.offset + static_cast<std::int64_t>(values.size()), w.offset);
    }
    const std::vector<float> own = initial(layout, 17);
    values.insert(values.end(), own.begin(), own.end());
  }
  EXPECT_EQ(entry, whole.entries().size());
  EXPECT_EQ(values, initial(whole, 17));
}

TEST(ParameterLayout, EveryCutGivesTheSameParameters) {
  const Model model = make_model("resnet-8", {8, 8, 3}, 10);
  const int n = model.layer_count();
  for (Make make : {&ParameterLayout::parameters, &ParameterLayout::statistics}) {
    for (int cut = 0; cut <= n; ++cut) expect_parts_add_up(model, make, {0, cut, n});
    expect_parts_add_up(model, make, {0, 1, 2, 5, 5, 11, n - 1, n});
  }
}

TEST(ParameterLayout, CountsAndNames) {
  const Model model = make_model("lenet-bn", {28, 28, 1}, 10);
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  EXPECT_EQ(layout.count(), model.parameter_count());
  EXPECT_EQ(layout.entries()[0].name, "conv1/weight");
  EXPECT_EQ(layout.entries()[0].shape.shape, (Shape{16, 1, 5, 5}));
  EXPECT_EQ(layout.entries()[1].name, "bn1/scale");
  EXPECT_EQ(layout.entries()[1].offset, 400);
  const auto statistics = ParameterLayout::statistics(model, 0, model.layer_count());
  EXPECT_EQ(statistics.count(), 2 * (16 + 32 + 128));
  EXPECT_EQ(statistics.entries()[1].name, "bn1/variance");
}

TEST(ParameterLayout, EntriesOfALayer) {
  const Model model = make_model("lenet", {28, 28, 1}, 10);
  const auto layout = ParameterLayout::parameters(model, 1, model.layer_count());
  std::size_t seen = 0;
  for (int i = 1; i < model.layer_count(); ++i) {
    const auto entries = layout.of_layer(i);
    EXPECT_EQ(entries.size(), model.shapes(i, 1).parameters.size());
    for (const ParameterEntry& entry : entries) EXPECT_EQ(entry.layer, i);
    seen += entries.size();
  }
  EXPECT_EQ(seen, layout.entries().size());
  EXPECT_TRUE(layout.of_layer(0).empty());  // not of this part
  EXPECT_TRUE(layout.of_layer(model.layer_count() + 3).empty());
}

TEST(InitialValues, AreDrawnByNameAndElement) {
  const Model model = make_model("lenet-bn", {28, 28, 1}, 10);
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  const std::vector<float> values = initial(layout, 3);
  for (const ParameterEntry& entry : layout.entries()) {
    SCOPED_TRACE(entry.name);
    const auto begin = values.begin() + entry.offset;
    if (entry.shape.name != "weight") {
      const float expected = entry.shape.name == "scale" ? 1.0f : 0.0f;
      EXPECT_TRUE(std::all_of(begin, begin + entry.count, [&](float v) { return v == expected; }));
      continue;
    }
    const std::uint64_t key = random_key({3, hash_text(entry.name)});
    double sum = 0, squares = 0;
    for (std::int64_t e = 0; e < entry.count; ++e) {
      const float v = begin[e];
      ASSERT_EQ(v,
                entry.shape.bound * (2 * random_uniform(key, static_cast<std::uint64_t>(e)) - 1));
      ASSERT_LE(std::abs(v), entry.shape.bound);
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    // Uniform in +-bound: mean 0, variance bound^2/3; four standard errors of the mean.
    const double n = static_cast<double>(entry.count), bound = entry.shape.bound;
    EXPECT_LT(std::abs(sum / n), 4 * bound / std::sqrt(3 * n));
    EXPECT_NEAR(squares / n, bound * bound / 3, 0.2 * bound * bound / 3);
  }
}

TEST(InitialValues, NormalOnesAreDrawnByNameAndElement) {
  Model model("m", {4}, 500);
  model.add("wte", Embedding{.vocabulary = 500, .features = 8, .deviation = 0.3f});
  const auto layout = ParameterLayout::parameters(model, 0, 1);
  const std::vector<float> values = initial(layout, 3);
  const std::uint64_t key = random_key({3, hash_text("wte/weight")});
  for (std::size_t e = 0; e < values.size(); ++e) {
    ASSERT_EQ(values[e], 0.3f * random_normal(key, e));
  }
}

TEST(InitialValues, DependOnTheSeed) {
  const Model model = make_model("mlp", {4, 4, 1}, 10);
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  EXPECT_EQ(initial(layout, 1), initial(layout, 1));
  EXPECT_NE(initial(layout, 1), initial(layout, 2));
}

}  // namespace parameters_test
}  // namespace hetpipe
