// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/wave_rules.h"

#include <gtest/gtest.h>

#include <vector>

namespace hetpipe {
namespace wave_rules_test {

constexpr VirtualWorkerId kWorker{0};

//   Nm = 3, D = 1, eight minibatches
//   minibatch  0 1 2 | 3 4 5 | 6 7
//   wave       0 0 0 | 1 1 1 | 2 2     the last wave is partial
//   gate                   1           of wave 1; wave 0 has none, wave 2 has no last minibatch
//   push           0       1     2
TEST(WaveRules, WavesGatesAndPushesOfAPartialRun) {
  const WaveRules rules{
      .in_flight = 3, .distance = 1, .pull = PullRule::bound, .first_wave = 0, .end = {8}};
  std::vector<Wave> waves;
  std::vector<Minibatch> gates, pushes;
  for (Minibatch p = 0; p < 8; ++p) {
    waves.push_back(rules.wave_of(p));
    if (const auto gate = rules.gate_before(p)) {
      EXPECT_EQ(*gate, rules.wave_of(p));
      gates.push_back(p);
    }
    if (rules.ends_wave(kWorker, p)) pushes.push_back(p);
  }
  EXPECT_EQ(waves, (std::vector<Wave>{0, 0, 0, 1, 1, 1, 2, 2}));
  EXPECT_EQ(gates, (std::vector<Minibatch>{5}));
  EXPECT_EQ(pushes, (std::vector<Minibatch>{2, 5, 7}));
  EXPECT_EQ(rules.end_wave(kWorker), 3);
  EXPECT_EQ(rules.end_label(), 3);
}

//   Nm = 2, H = 3: waves are rounds of six
//   minibatch  0 1 2 3 4 5 | 6 7 8 9 10 11 | 12
//   gate                       1
//   push                 0            1       2
TEST(WaveRules, RoundsOfSeveralTimesWhatIsInFlight) {
  WaveRules rules{.in_flight = 2, .round = 3, .distance = 1, .end = {13}};
  EXPECT_EQ(rules.length(), 6);
  for (Minibatch p = 0; p < 13; ++p) {
    EXPECT_EQ(rules.wave_of(p), p / 6) << p;
    EXPECT_EQ(rules.gate_before(p).has_value(), p == 7) << p;
    EXPECT_EQ(rules.ends_wave(kWorker, p), p == 5 || p == 11 || p == 12) << p;
    EXPECT_EQ(rules.visible_updates(p), std::max<Minibatch>(0, p - 1)) << p;
    EXPECT_EQ(rules.last_gate(p), p < 1 ? -1 : p < 7 ? 0 : p < 13 ? 1 : 2) << p;
  }
  EXPECT_EQ(rules.end_label(), 3);
  EXPECT_EQ(rules.global_staleness(), 2 * 6 + 2 - 2);
  EXPECT_EQ(rules.staleness(10, 1), 4);
  // The update that ends a round is seen in its sum, those inside of one singly.
  EXPECT_EQ(rules.single_updates(6), (std::vector<Minibatch>{4}));
  EXPECT_EQ(rules.single_updates(9), (std::vector<Minibatch>{7, 8}));
  rules.stop_before(9);
  EXPECT_TRUE(rules.stopped_inside());
  EXPECT_EQ(rules.stopped(), 2);
  EXPECT_EQ(rules.end_of(2), 9);
}

TEST(WaveRules, EndLabelIsThatOfTheLongestWorker) {
  const WaveRules rules{
      .in_flight = 2, .distance = 0, .pull = PullRule::bound, .first_wave = 0, .end = {4, 5, 3}};
  EXPECT_EQ(rules.workers(), 3);
  EXPECT_EQ(rules.end_wave(VirtualWorkerId{0}), 2);
  EXPECT_EQ(rules.end_wave(VirtualWorkerId{1}), 3);
  EXPECT_EQ(rules.end_wave(VirtualWorkerId{2}), 2);
  EXPECT_EQ(rules.end_label(), 3);
}

TEST(WaveRules, AResumedRunStartsLikeAFreshOne) {
  const WaveRules fresh{
      .in_flight = 3, .distance = 2, .pull = PullRule::bound, .first_wave = 0, .end = {17}};
  WaveRules resumed = fresh;
  resumed.first_wave = 4;
  resumed.end = {17 + 12};
  EXPECT_EQ(resumed.first_minibatch(), 12);
  EXPECT_EQ(resumed.end_wave(kWorker), fresh.end_wave(kWorker) + 4);
  for (Minibatch p = 0; p < 17; ++p) {
    const auto gate = fresh.gate_before(p), later = resumed.gate_before(p + 12);
    ASSERT_EQ(gate.has_value(), later.has_value()) << p;
    if (gate) {
      EXPECT_EQ(*later, *gate + 4);
      EXPECT_EQ(resumed.bound_label(*later), fresh.bound_label(*gate) + 4);
    }
    EXPECT_EQ(resumed.ends_wave(kWorker, p + 12), fresh.ends_wave(kWorker, p));
    EXPECT_EQ(resumed.visible_updates(p + 12), fresh.visible_updates(p) + 12);
  }
}

// A worker for which nothing is left has no waves, whatever the others have.
TEST(WaveRules, AWorkerWithoutMinibatches) {
  const WaveRules rules{
      .in_flight = 2, .distance = 0, .pull = PullRule::bound, .first_wave = 3, .end = {6, 7}};
  EXPECT_EQ(rules.end_wave(VirtualWorkerId{0}), 3);
  EXPECT_EQ(rules.end_wave(VirtualWorkerId{1}), 4);
}

TEST(WaveRules, StoppedAtAWavesEndOrInside) {
  const WaveRules rules{.in_flight = 4, .first_wave = 2, .end = {40, 39}};
  EXPECT_EQ(rules.end_of(5), 20);
  WaveRules at_end = rules;
  at_end.stop_at(5);
  EXPECT_FALSE(at_end.stopped_inside());
  EXPECT_EQ(at_end.end, (std::vector<Minibatch>{20, 20}));
  WaveRules inside = rules;
  inside.stop_before(18);
  EXPECT_TRUE(inside.stopped_inside());
  EXPECT_EQ(inside.stopped(), 5);
  EXPECT_EQ(inside.end_label(), 5);
  EXPECT_EQ(inside.end, (std::vector<Minibatch>{18, 18}));
  EXPECT_TRUE(inside.ends_wave(VirtualWorkerId{0}, 17));
  EXPECT_EQ(inside.end_of(5), 18);
  EXPECT_EQ(inside.end_of(4), 16);
}

// F(p) sees own updates 0 ... p - (s_local + 1), and none of the run before the first.
TEST(WaveRules, OwnUpdatesAreVisibleWithLocalStaleness) {
  for (int in_flight = 1; in_flight <= 4; ++in_flight) {
    const WaveRules rules{.in_flight = in_flight,
                          .distance = 0,
                          .pull = PullRule::bound,
                          .first_wave = 0,
                          .end = {20}};
    EXPECT_EQ(rules.local_staleness(), in_flight - 1);
    for (Minibatch p = 0; p < 20; ++p) {
      const Minibatch newest = p - (rules.local_staleness() + 1);
      EXPECT_EQ(rules.visible_updates(p), newest < 0 ? 0 : newest + 1) << in_flight << " " << p;
    }
  }
}

TEST(WaveRules, BoundLabelIsDWavesBackButNotBeforeTheRun) {
  WaveRules rules{
      .in_flight = 2, .distance = 2, .pull = PullRule::bound, .first_wave = 5, .end = {40}};
  std::vector<Label> labels;
  for (Wave wave = 6; wave < 11; ++wave) labels.push_back(rules.bound_label(wave));
  EXPECT_EQ(labels, (std::vector<Label>{5, 5, 6, 7, 8}));
  rules.distance = kUnbounded;
  EXPECT_EQ(rules.bound_label(1000), 5);
}

TEST(WaveRules, StalenessIsWhatTheLabelLacks) {
  const WaveRules rules{
      .in_flight = 3, .distance = 1, .pull = PullRule::bound, .first_wave = 0, .end = {30}};
  EXPECT_EQ(rules.staleness(7, 1), 4);  // 3 4 5 6
  EXPECT_EQ(rules.staleness(7, 2), 1);  // 6
  EXPECT_EQ(rules.staleness(7, 3), 0);  // the label holds later ones, too
}

// By arrival a label counts pushes: of two others' four waves of 3, and three own ones.
TEST(WaveRules, StalenessByArrivalIsTheMeanOverTheOthers) {
  const WaveRules rules{.in_flight = 3,
                        .distance = kUnbounded,
                        .pull = PullRule::newest,
                        .first_wave = 0,
                        .end = {30, 30, 30}};
  EXPECT_EQ(rules.staleness(11, 7), 5);  // 6 7 8 9 10
  EXPECT_EQ(rules.staleness(11, 3), 11);
  EXPECT_EQ(rules.staleness(11, 15), 0);
  EXPECT_EQ(rules.staleness(1, 0), 1);  // before its first gate
  EXPECT_EQ(rules.end_snapshot(), 30);
}

}  // namespace wave_rules_test
}  // namespace hetpipe
