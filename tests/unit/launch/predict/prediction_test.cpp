// SPDX-License-Identifier: Apache-2.0
#include "launch/predict/prediction.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hetpipe {
namespace prediction_test {

// 1 : 2 : 4 : 1 of eight.
const std::vector<float> kLogits{0, std::log(2.0f), std::log(4.0f), 0};

TEST(Prediction, Softmax) {
  const std::vector<double> p = softmax(kLogits);
  const std::vector<double> expected{0.125, 0.25, 0.5, 0.125};
  for (std::size_t c = 0; c < expected.size(); ++c) EXPECT_NEAR(p[c], expected[c], 1e-7);
  // A temperature of a half squares the ratios: 1 : 4 : 16 : 1.
  EXPECT_NEAR(softmax(kLogits, 0.5)[1], 4.0 / 22, 1e-7);
  EXPECT_EQ(softmax(std::vector{1e30f, 0.0f}), (std::vector{1.0, 0.0}));
}

TEST(Prediction, LargestFirst) {
  const std::vector<double> values{0.1, 0.3, 0.1, 0.5};
  EXPECT_EQ(largest(values, 3), (std::vector{3, 1, 0}));
  EXPECT_EQ(largest(values, 9), (std::vector{3, 1, 0, 2}));
}

TEST(Prediction, AsALine) {
  Json line{{"file", "a.png"}};
  add_prediction(line, kLogits, 2, {"cat", "dog", "owl", "eel"});
  EXPECT_EQ(line.at("class").get<int>(), 2);
  EXPECT_EQ(line.at("name").get<std::string>(), "owl");
  EXPECT_NEAR(line.at("probability").get<double>(), 0.5, 1e-7);
  ASSERT_EQ(line.at("top").size(), 2u);
  EXPECT_EQ(line.at("top").at(std::size_t{1}).at("name").get<std::string>(), "dog");
  EXPECT_NEAR(line.at("top").at(std::size_t{1}).at("probability").get<double>(), 0.25, 1e-7);
  Json bare = Json::object();
  add_prediction(bare, kLogits, 1, {});
  EXPECT_FALSE(bare.contains("name"));
}

}  // namespace prediction_test
}  // namespace hetpipe
