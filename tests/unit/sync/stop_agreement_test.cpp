// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/stop_agreement.h"

#include <gtest/gtest.h>

#include <random>

namespace hetpipe {
namespace {

WaveRules rules_of(Wave distance, std::vector<Minibatch> end, Wave played = 0) {
  return {.in_flight = 3,
          .distance = distance,
          .pull = PullRule::bound,
          .first_wave = 0,
          .end = std::move(end),
          .played = played};
}

TEST(StopAgreement, EndsTheWaveBehindTheFurthestGate) {
  const WaveRules rules = rules_of(0, {30, 30});
  StopAgreement stop(rules, 2);
  stop.gate_passed(1);
  stop.gate_passed(4);
  stop.gate_passed(2);
  EXPECT_EQ(stop.decide(), 6);
  EXPECT_EQ(stop.decide(), std::nullopt) << "decided once";
  EXPECT_FALSE(stop.shut(4));
  EXPECT_TRUE(stop.shut(5)) << "the last wave's gate waits until all know";
  stop.knows(Rank{1});
  EXPECT_TRUE(stop.shut(5));
  stop.knows(Rank{0});
  EXPECT_FALSE(stop.shut(5));
}

// The first wave has no gate, so nobody can be kept from it; that of a continued run has one.
TEST(StopAgreement, BeforeAnyGate) {
  const WaveRules fresh = rules_of(0, {30, 30});
  EXPECT_EQ(StopAgreement(fresh, 1).decide(), 2);
  const WaveRules continued = rules_of(0, {30, 30}, 4);
  EXPECT_EQ(StopAgreement(continued, 1).decide(), 5);
}

TEST(StopAgreement, NotWhereTheRunEndsByThenAnyway) {
  const WaveRules rules = rules_of(0, {30, 27});
  for (const Wave gate : {7, 8}) {
    StopAgreement stop(rules, 1);
    stop.gate_passed(gate);
    EXPECT_EQ(stop.decide(), gate == 7 ? std::optional<Label>(9) : std::nullopt);
  }
}

// Virtual workers at random paces, a stop asked for at a random moment: nobody is ever past the
// label that is agreed on, and all come there.
TEST(StopAgreement, NobodyIsPastTheLabel) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const int workers = 1 + static_cast<int>(random() % 4);
    const Wave distance = static_cast<Wave>(random() % 3);
    WaveRules rules =
        rules_of(distance, std::vector<Minibatch>(static_cast<std::size_t>(workers), 3 * 12));
    StopAgreement stop(rules, workers);
    std::vector<Wave> gate(static_cast<std::size_t>(workers), 0);  // furthest passed by each
    std::vector<Wave> pushed(static_cast<std::size_t>(workers), 0);
    std::vector<int> unaware;
    const unsigned moment = random() % 60;
    std::optional<Label> label;
    for (unsigned step = 0; step < 4000; ++step) {
      if (step == moment) {
        label = stop.decide();
        for (int r = 0; label && r < workers; ++r) unaware.push_back(r);
      }
      if (!unaware.empty() && random() % 8 == 0) {
        stop.knows(Rank{unaware.back()});
        unaware.pop_back();
        if (unaware.empty()) rules.stop_at(*label);
      }
      const std::size_t i = random() % static_cast<unsigned>(workers);
      const Wave slowest = *std::min_element(pushed.begin(), pushed.end());
      const Wave next = gate[i] + 1;
      if (random() % 2 == 0) {
        if (pushed[i] <= gate[i]) ++pushed[i];  // all of a wave whose gate has been passed
      } else if (next * 3 < rules.end[i] && slowest >= next - distance && pushed[i] == next &&
                 !stop.shut(next)) {
        stop.gate_passed(next);
        gate[i] = next;
      }
      if (label) {
        ASSERT_LT(gate[i], *label) << "seed " << seed;
        ASSERT_LE(pushed[i], *label) << "seed " << seed;
      }
    }
    const Label end = label.value_or(12);
    for (const Wave waves : pushed) EXPECT_EQ(waves, end) << "seed " << seed;
  }
}

}  // namespace
}  // namespace hetpipe
