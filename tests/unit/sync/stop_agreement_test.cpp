// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/stop_agreement.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "partitioner/schedule/counts.h"
#include "partitioner/schedule/lower.h"

namespace hetpipe {
namespace stop_agreement_test {

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

TEST(StopInside, BehindTheFurthestOfThoseAsked) {
  const WaveRules rules = rules_of(0, {30, 30});
  StopInside stop(rules, 3);
  for (const Minibatch next : {11, 13, 12}) {
    EXPECT_FALSE(stop.all_are_known());
    stop.comes_to(next);
  }
  EXPECT_TRUE(stop.all_are_known());
  EXPECT_EQ(stop.decide(6), 14);
  EXPECT_EQ(stop.decide(5), 14);
  EXPECT_EQ(stop.decide(4), std::nullopt) << "the wave ends before";
}

TEST(StopInside, NotWhereAVirtualWorkerEndsByThenAnyway) {
  for (const Minibatch end : {14, 15}) {
    const WaveRules rules = rules_of(0, {30, end});
    StopInside stop(rules, 1);
    stop.comes_to(13);
    EXPECT_EQ(stop.decide(9), end == 15 ? std::optional<Minibatch>(14) : std::nullopt);
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

// Runs without gates. Virtual workers of random cuts and schedules, played as far as they get while
// the first one's first stage does not begin minibatch p.
class WithoutCoordinator {
 public:
  explicit WithoutCoordinator(unsigned seed) : random_(seed) {
    using Rule = ScheduleRule;
    const Rule rules[] = {Rule::continuous_1f1b, Rule::xpipe, Rule::nf1b, Rule::gpipe,
                          Rule::flush_1f1b};
    const Rule rule = rules[draw(5)];
    in_flight = traits(rule).has_flush ? 1 : 1 + draw(5);
    ahead.between_sums = traits(rule).chooses_in_flight && draw(3) == 0 ? in_flight : 1;
    blocked = draw(12);
    const int layers = 1 + draw(5);
    for (int l = 0; l < layers; ++l) parameters_.push_back(draw(2) == 0);
    parameters_[static_cast<std::size_t>(draw(layers))] = true;
    const int micro_batches = traits(rule).whole_minibatches ? 1 : 1 + draw(3);
    for (int i = 1 + draw(3); i > 0; --i) {
      Worker& worker = workers_.emplace_back();
      for (int end = 0; end < layers;) {
        end += 1 + draw(layers - end);
        worker.stage_end.push_back(end);
      }
      ScheduleRequest request;
      request.stages = static_cast<int>(worker.stage_end.size());
      request.micro_batches = micro_batches;
      request.in_flight = in_flight;
      request.end = kEnd;
      const Schedule schedule = generate(rule, request);
      for (const HeldCounts& held : count_held(schedule)) {
        ahead.held = std::max(ahead.held, held.minibatches);
      }
      worker.actions = lower(schedule, {.sync = StageSync::all_reduce, .end = kEnd});
      worker.next.assign(worker.actions.size(), 0);
    }
  }

  Minibatch furthest_begun() {
    for (bool more = true; more;) {
      more = false;
      for (std::size_t i = 0; i < workers_.size(); ++i) {
        for (std::size_t k = 0; k < workers_[i].actions.size(); ++k) {
          while (play(i, k)) more = true;
        }
      }
    }
    return begun_;
  }

  static constexpr Minibatch kEnd = 60;
  int in_flight = 1;
  RunAhead ahead;
  Minibatch blocked = 0;

 private:
  struct Worker {
    std::vector<int> stage_end;
    Schedule actions;
    std::vector<std::size_t> next;                                       // [stage]
    std::set<std::tuple<ActionKind, std::size_t, Minibatch, int>> done;  // stage, micro-batch
  };

  int draw(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  // Everybody who holds one of the stage's layers with parameters has handed over minibatch q.
  bool summed(const Worker& worker, std::size_t k, Minibatch q) const {
    if (q % ahead.between_sums != ahead.between_sums - 1) return true;
    const int first = k == 0 ? 0 : worker.stage_end[k - 1];
    for (int l = first; l < worker.stage_end[k]; ++l) {
      if (!parameters_[static_cast<std::size_t>(l)]) continue;
      for (const Worker& other : workers_) {
        const auto holder = std::upper_bound(other.stage_end.begin(), other.stage_end.end(), l) -
                            other.stage_end.begin();
        const auto stage = static_cast<std::size_t>(holder);
        if (!other.done.contains({ActionKind::push, stage, q, 0})) return false;
      }
    }
    return true;
  }

  bool play(std::size_t i, std::size_t k) {
    Worker& worker = workers_[i];
    if (worker.next[k] == worker.actions[k].size()) return false;
    const Action& action = worker.actions[k][worker.next[k]];
    const auto is_done = [&](ActionKind kind, std::size_t stage) {
      return worker.done.contains({kind, stage, action.minibatch, action.micro});
    };
    switch (action.kind) {
      case ActionKind::forward:
        if (k > 0 && !is_done(ActionKind::forward, k - 1)) return false;
        if (i == 0 && k == 0 && action.minibatch == blocked) return false;
        begun_ = std::max(begun_, action.minibatch);
        break;
      case ActionKind::backward:
        if (k + 1 < worker.actions.size() && !is_done(ActionKind::backward, k + 1)) return false;
        break;
      case ActionKind::update:
        if (!summed(worker, k, action.minibatch)) return false;
        break;
      default:
        break;
    }
    worker.done.insert({action.kind, k, action.minibatch, action.micro});
    ++worker.next[k];
    return true;
  }

  std::mt19937 random_;
  std::vector<bool> parameters_;  // by layer: it has some
  std::vector<Worker> workers_;
  Minibatch begun_ = -1;
};

TEST(StopAtForward, NobodyHasComeNearTheLabel) {
  Minibatch closest = WithoutCoordinator::kEnd;
  for (unsigned seed = 0; seed < 1500; ++seed) {
    WithoutCoordinator run(seed);
    const WaveRules rules{.in_flight = run.in_flight,
                          .distance = 0,
                          .pull = PullRule::bound,
                          .first_wave = 0,
                          .end = {WithoutCoordinator::kEnd}};
    StopAtForward stop(rules, run.ahead, 2);
    const std::optional<Label> label = stop.decide(run.blocked);
    if (!label) continue;  // so close to the end that it ends there anyway
    const Minibatch begun = run.furthest_begun();
    // A receive may have been posted for one more.
    EXPECT_LT(begun + 1, *label * run.in_flight) << "seed " << seed;
    EXPECT_LE(begun, run.blocked + run.ahead.between_sums + 2 * run.ahead.held) << "seed " << seed;
    closest = std::min(closest, *label * run.in_flight - begun);
  }
  EXPECT_LE(closest, 4) << "far more than it takes";
}

TEST(StopAtForward, OnceAndUntilAllKnow) {
  const WaveRules rules{
      .in_flight = 3, .distance = 0, .pull = PullRule::bound, .first_wave = 0, .end = {31, 31}};
  StopAtForward stop(rules, {.held = 2}, 2);
  EXPECT_EQ(stop.decide(7), 4);  // 7 ... 11 may have been begun or awaited
  EXPECT_EQ(stop.decide(8), std::nullopt);
  stop.knows(Rank{1});
  EXPECT_FALSE(stop.all_know());
  stop.knows(Rank{0});
  EXPECT_TRUE(stop.all_know());
  EXPECT_EQ(StopAtForward(rules, {.held = 2}, 2).decide(25), 10);
  EXPECT_EQ(StopAtForward(rules, {.held = 2}, 2).decide(26), std::nullopt) << "ends by then";
}

}  // namespace stop_agreement_test
}  // namespace hetpipe
