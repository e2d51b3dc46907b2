// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "partitioner/profile/cut.h"
#include "tests/end-to-end/training.h"

// Where the model is cut changes who computes what and nothing else: the same weights, the same
// losses, bit for bit.
namespace hetpipe {
namespace cuts_test {

Training cut(const std::string& model, const std::string& device, std::vector<int> ends) {
  Training training{.model = model,
                    .samples = 56,
                    .device = device,
                    .workers = {{4, std::move(ends)}, {4, {}}},
                    .in_flight = 3};
  if (model.starts_with("resnet")) training.sample = {8, 8, 3};
  if (model.starts_with("gpt2")) training.sample = {3};
  return training;
}

std::vector<double> losses_of(const Trained& trained) {
  std::vector<double> losses;
  for (const MetricPoint& point : trained.metric("loss")) losses.push_back(point.value);
  return losses;
}

void expect_cuts_alike(const std::string& model, const std::string& device,
                       const std::vector<std::vector<int>>& cuts) {
  const Bench whole(cut(model, device, {}));
  const Trained uncut = whole.train();
  const std::vector<double> losses = losses_of(uncut);
  ASSERT_EQ(losses.size(), 3u);  // 56 samples, 2 workers, waves of 3 x 4: the last one is partial
  expect_same(uncut, whole.serial(), whole.model());
  for (const std::vector<int>& ends : cuts) {
    std::string where = "cut before layers";
    for (const int end : ends) where += format(" %d", end);
    SCOPED_TRACE(where);
    const Bench bench(cut(model, device, ends));
    const Trained trained = bench.train();
    expect_same(trained, uncut, bench.model());
    EXPECT_EQ(losses_of(trained), losses);
    if (::testing::Test::HasFailure()) return;
  }
}

std::vector<std::vector<int>> all_cuts_in_two(const std::string& model) {
  const Bench bench(cut(model, "cpu", {}));
  std::vector<std::vector<int>> cuts;
  for (int end = 1; end < bench.model().layer_count(); ++end) cuts.push_back({end});
  return cuts;
}

TEST(Cuts, LenetInTwo) { expect_cuts_alike("lenet", "cpu", all_cuts_in_two("lenet")); }
TEST(Cuts, ReferenceLenetBnInTwo) {
  expect_cuts_alike("lenet-bn", "reference", all_cuts_in_two("lenet-bn"));
}
TEST(Cuts, Resnet8InTwo) { expect_cuts_alike("resnet-8", "cpu", all_cuts_in_two("resnet-8")); }

// stem.relu (2) feeds stage0.block0.add (8); stage0.block0.relu2 (9) feeds the convolution of the
// shortcut (15), and both ways meet in the add (17).
TEST(Cuts, SkipsOverWholeStages) {
  const Bench bench(cut("resnet-8", "cpu", {}));
  ASSERT_EQ(bench.model().layer(8).inputs, (std::vector<int>{7, 2}));
  ASSERT_EQ(bench.model().layer(15).inputs, (std::vector<int>{9}));
  ASSERT_EQ(bench.model().layer(17).inputs, (std::vector<int>{14, 16}));
  const std::vector<std::vector<int>> cuts{{4, 6},   {3, 8},       {10, 15},
                                           {12, 16}, {3, 5, 7, 8}, {8, 9, 10, 17, 18}};
  expect_cuts_alike("resnet-8", "cpu", cuts);
  expect_cuts_alike("resnet-8", "reference", {{4, 6}, {10, 15}, {3, 5, 7, 8}});
}

// The first layer's weight is the last but one's too: both lie in one stage, or in two, one of
// which may have no parameters of its own.
TEST(Cuts, TiedGpt2) {
  const int loss = Bench(cut("gpt2-tiny", "cpu", {})).model().layer_count() - 1;
  expect_cuts_alike("gpt2-tiny", "cpu",
                    {{1}, {20}, {loss - 1}, {loss}, {9, 20}, {1, 2, 20, loss - 1}});
}

// An exported model whose tensors have up to four readers: where one stage has several of them and
// a later one more, each one's gradient goes back by itself.
TEST(Cuts, SeveralReadersBeforeALaterStages) {
  const std::string model = HETPIPE_SOURCE_DIR "/tests/models/bert";
  const auto training = [&](std::vector<int> ends) {
    Training cut_up = cut(model, "cpu", std::move(ends));
    cut_up.sample = {12};
    cut_up.classes = 40;
    return cut_up;
  };
  const Bench whole(training({}));
  const Trained uncut = whole.train();
  const int layers = whole.model().layer_count();
  int tried = 0;
  for (int first = 1; first < layers && tried < 4; ++first) {
    for (int second = first + 1; second < layers && tried < 4; ++second) {
      const std::vector<Transfer> crossing =
          transfers(whole.model().producers(), std::vector<int>{first, second, layers});
      if (std::ranges::all_of(crossing, &std::vector<int>::empty, &Transfer::more_gradients)) {
        continue;
      }
      SCOPED_TRACE(format("cut before layers %d and %d", first, second));
      const Bench bench(training({first, second}));
      expect_same(bench.train(), uncut, bench.model());
      ++tried;
    }
  }
  EXPECT_EQ(tried, 4);
}

// A stage without parameters has nothing to push and is part of every wave nevertheless.
TEST(Cuts, StagesWithoutParameters) { expect_cuts_alike("mlp", "cpu", {{1, 2, 3, 4, 5, 6}}); }

}  // namespace cuts_test
}  // namespace hetpipe
