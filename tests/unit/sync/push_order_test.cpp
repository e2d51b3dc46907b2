// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/push_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "runtime/sync/wave_clock.h"

// Asynchronous training: whose gate opens, and in which order pushes are added.
namespace hetpipe {
namespace push_order_test {

using testing::ElementsAre;
using testing::Pair;

constexpr VirtualWorkerId kFast{0}, kSlow{1};
constexpr ShardId kOne{0}, kOther{1};

WaveRules by_arrival(std::vector<Minibatch> end, int in_flight = 1) {
  return {.in_flight = in_flight,
          .distance = kUnbounded,
          .pull = PullRule::newest,
          .first_wave = 0,
          .end = std::move(end)};
}

TEST(Arrivals, AGateWaitsForTheOwnPushAtEveryShardAndForNobodyElse) {
  WaveClock clock(by_arrival({5, 5}), 2);
  clock.arrived(kOne, kFast, 0);
  EXPECT_EQ(clock.decide_gate(kFast, 1), std::nullopt);
  clock.arrived(kOther, kFast, 0);
  EXPECT_EQ(clock.decide_gate(kFast, 1), Label{1});
  for (const ShardId shard : {kOne, kOther}) clock.arrived(shard, kFast, 1);
  EXPECT_EQ(clock.decide_gate(kSlow, 1), std::nullopt);
  EXPECT_EQ(clock.decide_gate(kFast, 2), Label{2});
  for (const ShardId shard : {kOne, kOther}) clock.arrived(shard, kSlow, 0);
  EXPECT_EQ(clock.decide_gate(kSlow, 1), Label{3});
}

TEST(Arrivals, TheSimulatorSaysWhoseGateIsNext) {
  WaveRules rules = by_arrival({4, 3});
  rules.passed = [](VirtualWorkerId vw, Wave wave) {
    return vw == kFast ? 1.0 * static_cast<double>(wave) : 2.0 * static_cast<double>(wave);
  };
  WaveClock clock(rules, 1);
  for (const Wave wave : {0, 1}) clock.arrived(kOne, kSlow, wave);
  EXPECT_EQ(clock.decide_gate(kSlow, 1), std::nullopt);  // at 2 s
  for (const Wave wave : {0, 1, 2}) clock.arrived(kOne, kFast, wave);
  EXPECT_EQ(clock.decide_gate(kFast, 1), Label{1});
  EXPECT_EQ(clock.decide_gate(kSlow, 1), std::nullopt);  // the fast one's second is at 2 s as well
  EXPECT_EQ(clock.decide_gate(kFast, 2), Label{2});
  EXPECT_EQ(clock.decide_gate(kFast, 3), std::nullopt);
  EXPECT_EQ(clock.decide_gate(kSlow, 1), Label{3});
  EXPECT_EQ(clock.decide_gate(kSlow, 2), std::nullopt);
  EXPECT_EQ(clock.decide_gate(kFast, 3), Label{4});  // its last
  EXPECT_EQ(clock.decide_gate(kSlow, 2), Label{5});
}

// Adds as much as is decided.
std::vector<std::pair<int, Wave>> add_all(PushOrder& order) {
  std::vector<std::pair<int, Wave>> added;
  while (const auto push = order.next()) {
    added.emplace_back(push->virtual_worker.value, push->wave);
    order.added();
  }
  return added;
}

// Waves of 2: the first worker's last one is whole, the second one's ends before its gate.
TEST(Arrivals, PushesAreAddedAsTheirWorkersComeToTheNextGate) {
  const WaveRules rules = by_arrival({6, 5}, 2);
  EXPECT_EQ(rules.end_snapshot(), 6);
  PushOrder order(rules, {1, 1});
  EXPECT_THAT(add_all(order), ElementsAre());
  order.gate_passed(kFast, 1, 1);
  order.gate_passed(kFast, 2, 2);
  EXPECT_THAT(add_all(order), ElementsAre(Pair(0, 0), Pair(0, 1)));
  EXPECT_EQ(order.complete(), 0);
  order.gate_passed(kSlow, 1, 3);
  EXPECT_THAT(add_all(order), ElementsAre(Pair(1, 0), Pair(0, 2), Pair(1, 1), Pair(1, 2)));
  EXPECT_EQ(order.complete(), rules.end_label());
}

TEST(Arrivals, WhatIsCompleteIsWhatTheSlowestHas) {
  const WaveRules rules = by_arrival({4, 4});
  PushOrder order(rules, {1, 1});
  for (const Wave wave : {1, 2, 3}) order.gate_passed(kFast, wave, wave);
  add_all(order);
  EXPECT_EQ(order.complete(), 0);
  order.gate_passed(kSlow, 1, 4);
  add_all(order);
  EXPECT_EQ(order.complete(), 1);
}

// A run that was asked to end has fewer gates.
TEST(Arrivals, AStopLeavesOutTheGatesBehindIt) {
  WaveRules rules = by_arrival({9, 9});
  PushOrder order(rules, {1, 1});
  order.gate_passed(kFast, 1, 1);
  order.gate_passed(kSlow, 1, 2);
  EXPECT_THAT(add_all(order), ElementsAre(Pair(0, 0), Pair(1, 0)));
  rules.stop_at(2);
  EXPECT_THAT(add_all(order), ElementsAre(Pair(0, 1), Pair(1, 1)));
  EXPECT_EQ(order.complete(), 2);
}

TEST(Arrivals, ASnapshotIsKeptUntilAllStagesHaveIt) {
  const WaveRules rules = by_arrival({9, 9});
  PushOrder order(rules, {2, 1});
  EXPECT_EQ(order.oldest_to_pull(), std::nullopt);
  order.gate_passed(kFast, 1, 1);
  order.gate_passed(kSlow, 1, 2);
  order.pulled(2);
  order.pulled(1);
  EXPECT_EQ(order.oldest_to_pull(), Label{1});
  order.pulled(1);
  EXPECT_EQ(order.oldest_to_pull(), std::nullopt);
}

}  // namespace push_order_test
}  // namespace hetpipe
