// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/parameter_server.h"
#include "tests/unit/sync/listed_labels.h"

#include <gtest/gtest.h>

#include "tests/unit/sync/parameter_server_cases.h"
#include "tests/unit/sync/parameter_server_play.h"

namespace hetpipe {
namespace parameter_server_test {

class ParameterServerTest : public testing::TestWithParam<std::tuple<Case, Reach, ElementType>> {};

TEST_P(ParameterServerTest, EveryPullIsOneLabelAndEveryCheckpointComesOnce) {
  const auto& [played, reach, pushed] = GetParam();
  Play play(played, reach, pushed);
  const std::vector<Seen> seen = play.run();
  if (testing::Test::HasFailure()) return;
  for (std::size_t r = 0; r < seen.size(); ++r) {
    SCOPED_TRACE(testing::Message() << "rank " << r);
    EXPECT_EQ(seen[r].wrong_weights, 0);
    EXPECT_EQ(seen[r].wrong_statistics, 0);
    // Whoever waits for a gate is D waves behind at most, has one push under way and a last partial
    // wave.
    EXPECT_LE(seen[r].most_snapshots, played.rules.distance + 3);
  }
  const auto& first_server =
      std::find_if(seen.begin(), seen.end(), [](const Seen& s) { return !s.checkpoints.empty(); });
  ASSERT_NE(first_server, seen.end());
  play.check_checkpoints(first_server->checkpoints);
  // Each rank of a worker with parameters pulls at each of its gates and at the end.
  for (std::size_t i = 0, r = 0; i < played.stage_end.size(); ++i) {
    Wave gates = 0;
    for (Minibatch p = played.rules.first_minibatch(); p < played.rules.end[i]; ++p) {
      gates += played.rules.gate_before(p).has_value();
    }
    for (std::size_t k = 0; k < played.stage_end[i].size(); ++k) {
      for (int left = played.replicas.empty() ? 1 : played.replicas[i][k]; left > 0; --left, ++r)
        EXPECT_GE(seen[r].pulls, gates + 1);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runs, ParameterServerTest,
                         testing::Combine(testing::ValuesIn(cases()),
                                          testing::Values(Reach::none, Reach::some, Reach::all),
                                          testing::Values(ElementType::fp32, ElementType::bf16)),
                         [](const testing::TestParamInfo<ParameterServerTest::ParamType>& named) {
                           const Reach reach = std::get<Reach>(named.param);
                           return std::string(std::get<Case>(named.param).name) +
                                  (reach == Reach::none   ? ""
                                   : reach == Reach::some ? "_some_reach"
                                                          : "_all_reach") +
                                  (std::get<ElementType>(named.param) == ElementType::bf16 ? "_bf16"
                                                                                           : "");
                         });

TEST(CheckpointRule, StagesSendWhereACheckpointIsDueOrTheirRunEnds) {
  const WaveRules rules{
      .in_flight = 2, .distance = 0, .pull = kBound, .first_wave = 0, .end = {7, 10}};
  const CheckpointRule rule{.next = test::listed({2, 5})};
  std::vector<Label> first, second;
  for (Label label = 0; label <= 5; ++label) {
    if (rule.of_stage(rules, VirtualWorkerId{0}, label) != Saves::nothing) first.push_back(label);
    if (rule.of_stage(rules, VirtualWorkerId{1}, label) != Saves::nothing) second.push_back(label);
  }
  EXPECT_EQ(first, (std::vector<Label>{2, 4, 5}));
  EXPECT_EQ(second, (std::vector<Label>{2, 5}));
}

// A part that came may be torn, if its sender died while it was read: nothing is handed over until
// every rank has shown that it is still there.
TEST(CheckpointCollector, WaitsForASignOfLifeAfterTheParts) {
  const WaveRules rules{.in_flight = 1, .distance = 0, .pull = kBound, .first_wave = 0, .end = {3}};
  const auto transports = make_threads_transports(2);
  RankService collecting(*transports[0], 30);
  RankService sending(*transports[1], 30);
  confirm_checkpoints(collecting);
  confirm_checkpoints(sending);
  std::vector<Label> complete;
  CheckpointCollector collector(
      {.numbers = PartNumbers({1}, 1),
       .rule = {.next = test::listed({2})},
       .unplayed = {},
       .complete = [&](CheckpointParts parts) { complete.push_back(parts.label); }},
      rules, collecting);
  CheckpointSender stage(Rank{0}, 0, sending);
  CheckpointSender shard(Rank{0}, 1, sending);
  stage.send(2, to_bytes(StageState{.label = 2, .slots = {}, .statistics = {}, .exact = {}}));
  const std::vector<float> weights{1};
  shard.send(2, to_bytes({.label = 2, .weights = weights, .statistics = {}}, {}));
  const auto collect = [&] {
    for (int i = 0; i < 20; ++i) {
      collecting.poll();
      collector.poll();
    }
  };
  transports[1]->progress();  // moves bytes, answers nothing
  collect();
  EXPECT_TRUE(complete.empty()) << "all parts are there, and their sender may be dead";
  sending.poll();
  collect();
  EXPECT_EQ(complete, std::vector<Label>{2});
}

}  // namespace parameter_server_test
}  // namespace hetpipe
