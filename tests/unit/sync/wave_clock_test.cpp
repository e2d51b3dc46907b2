// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/wave_clock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace hetpipe {
namespace wave_clock_test {

constexpr VirtualWorkerId kFirst{0}, kSecond{1};

WaveRules two_workers(Wave distance, PullRule pull) {
  return {.in_flight = 2, .distance = distance, .pull = pull, .first_wave = 0, .end = {8, 8}};
}

TEST(WaveClock, AWaveCountsWhenEveryShardHasIt) {
  WaveClock clock(two_workers(0, PullRule::bound), 2);
  clock.arrived(ShardId{0}, kFirst, 0);
  clock.arrived(ShardId{0}, kSecond, 0);
  clock.arrived(ShardId{1}, kFirst, 0);
  EXPECT_EQ(clock.clock(kFirst), 1);
  EXPECT_EQ(clock.clock(kSecond), 0);
  EXPECT_EQ(clock.decide_gate(kFirst, 1), std::nullopt);
  clock.arrived(ShardId{1}, kSecond, 0);
  EXPECT_EQ(clock.decide_gate(kFirst, 1), Label{1});
}

// In a run of any length.
TEST(WaveClock, AShardWithoutLayersIsWaitedForByNobody) {
  WaveRules rules;
  rules.in_flight = 1;
  rules.end = {Minibatch{1} << 40, 2};
  WaveClock clock(rules, 2);
  clock.leave_out(ShardId{1});
  EXPECT_EQ(clock.global_clock(), 0);
  for (int vw = 0; vw < 2; ++vw) clock.arrived(ShardId{0}, VirtualWorkerId{vw}, 0);
  EXPECT_EQ(clock.global_clock(), 1);
  for (int vw = 0; vw < 2; ++vw) clock.arrived(ShardId{0}, VirtualWorkerId{vw}, 1);
  EXPECT_TRUE(clock.finished(VirtualWorkerId{1}));
  EXPECT_EQ(clock.global_clock(), 2);
}

TEST(WaveClock, BoundTakesTheOldestAllowedAndNewestTheNewest) {
  for (const PullRule pull : {PullRule::bound, PullRule::newest}) {
    WaveClock clock(two_workers(2, pull), 1);
    EXPECT_EQ(clock.decide_gate(kFirst, 2), Label{0});  // nobody has pushed anything
    for (Wave wave = 0; wave < 3; ++wave) {
      clock.arrived(ShardId{0}, kFirst, wave);
      if (wave < 2) clock.arrived(ShardId{0}, kSecond, wave);
    }
    EXPECT_EQ(clock.decide_gate(kFirst, 3), pull == PullRule::bound ? Label{1} : Label{2});
  }
}

TEST(WaveClock, AFinishedWorkerHoldsNobodyBack) {
  WaveRules rules = two_workers(0, PullRule::bound);
  rules.end = {4, 6};
  WaveClock clock(rules, 1);
  for (Wave wave = 0; wave < 2; ++wave) {
    clock.arrived(ShardId{0}, kFirst, wave);
    clock.arrived(ShardId{0}, kSecond, wave);
  }
  EXPECT_TRUE(clock.finished(kFirst));
  EXPECT_EQ(clock.global_clock(), 2);
  EXPECT_EQ(clock.decide_gate(kSecond, 2), Label{2});
  clock.arrived(ShardId{0}, kSecond, 2);
  EXPECT_EQ(clock.global_clock(), rules.end_label());
}

TEST(WaveClockDeathTest, RefusesWhatCannotHappen) {
  WaveClock clock(two_workers(0, PullRule::bound), 1);
  EXPECT_DEATH(clock.arrived(ShardId{0}, kFirst, 1), "in order, each once");
  EXPECT_DEATH(clock.decide_gate(kFirst, 0), "no such gate");
  EXPECT_DEATH(clock.decide_gate(kFirst, 4), "no such gate");
  clock.arrived(ShardId{0}, kFirst, 0);
  EXPECT_DEATH(clock.arrived(ShardId{0}, kFirst, 1),
               "further ahead than the clock distance allows");
}

// Every interleaving of a small run, by walking all states that can be reached. Events: a worker
// starts its next minibatch (up to Nm in flight), finishes its oldest, a pushed wave reaches a
// shard. Each state is judged by counting, without the clock.
class Walk {
 public:
  Walk(WaveRules rules, int shards) : rules_(std::move(rules)), shards_(shards) {}

  struct Found {
    std::size_t states = 0;
    std::size_t closed_gates =
        0;  // states in which somebody waits: the walk has met what it is about
    Minibatch worst_staleness = 0;
    Wave furthest_apart = 0;
  };
  Found run() {
    State start;
    for (int i = 0; i < rules_.workers(); ++i) {
      Worker& worker = start.workers[i];
      worker.started = worker.finished = static_cast<int>(rules_.first_minibatch());
      worker.label = static_cast<int>(rules_.first_wave);
      for (int s = 0; s < shards_; ++s) worker.arrived[s] = static_cast<int>(rules_.first_wave);
    }
    reach(start);
    while (!to_visit_.empty() && !testing::Test::HasFailure()) {
      const State state = to_visit_.back();
      to_visit_.pop_back();
      visit(state);
    }
    found_.states = seen_.size();
    return found_;
  }

 private:
  struct Worker {
    int started = 0, finished = 0, label = 0;
    int arrived[2] = {0, 0};  // waves, by shard
    bool operator<(const Worker& other) const { return key() < other.key(); }
    std::uint64_t key() const {  // 20 bits
      std::uint64_t key = 0;
      for (int part : {started, started - finished, label, arrived[0], arrived[1]}) {
        key = key * 16 + static_cast<std::uint64_t>(part);
      }
      return key;
    }
  };
  struct State {
    Worker workers[3];
  };

  Wave pushed(int worker, int finished) const {
    Wave waves = rules_.first_wave;
    for (Minibatch p = rules_.first_minibatch(); p < finished; ++p) {
      if (rules_.ends_wave(VirtualWorkerId{worker}, p)) ++waves;
    }
    return waves;
  }
  // Of a worker: waves that every shard has.
  Wave counted(const Worker& worker) const {
    return *std::min_element(worker.arrived, worker.arrived + shards_);
  }

  void reach(State state) {
    // Workers with equally many minibatches are alike: one order of them stands for all.
    for (int i = 0; i < rules_.workers(); ++i) {
      for (int j = i + 1; j < rules_.workers(); ++j) {
        const bool alike =
            rules_.end[static_cast<std::size_t>(i)] == rules_.end[static_cast<std::size_t>(j)];
        if (alike && state.workers[j] < state.workers[i])
          std::swap(state.workers[i], state.workers[j]);
      }
    }
    std::uint64_t key = 0;
    for (int i = 0; i < rules_.workers(); ++i) key = key << 20 | state.workers[i].key();
    if (seen_.insert(key).second) to_visit_.push_back(state);
  }

  // A clock that has seen this state's arrivals.
  WaveClock clock_of(const State& state) const {
    WaveClock clock(rules_, shards_);
    for (Wave wave = rules_.first_wave; wave < rules_.end_label(); ++wave) {
      for (int i = 0; i < rules_.workers(); ++i) {
        for (int s = 0; s < shards_; ++s) {
          if (wave < state.workers[i].arrived[s])
            clock.arrived(ShardId{s}, VirtualWorkerId{i}, wave);
        }
      }
    }
    return clock;
  }

  void visit(const State& state) {
    const int workers = rules_.workers();
    WaveClock clock = clock_of(state);
    bool all_done = true;
    Wave least = rules_.end_label(), most = rules_.first_wave;
    for (int i = 0; i < workers; ++i) {
      const VirtualWorkerId vw{i};
      const Wave waves = counted(state.workers[i]);
      const bool done = waves == rules_.end_wave(vw);
      ASSERT_EQ(clock.clock(vw), waves);
      ASSERT_EQ(clock.finished(vw), done);
      if (done) continue;
      all_done = false;
      least = std::min(least, waves);
      most = std::max(most, waves);
    }
    ASSERT_EQ(clock.global_clock(), least);
    if (!all_done) found_.furthest_apart = std::max(found_.furthest_apart, most - least);
    ASSERT_LE(found_.furthest_apart, rules_.distance + 1);

    bool something_happens = false;
    for (int i = 0; i < workers; ++i) {
      const Worker& worker = state.workers[i];
      const auto move = [&](auto change) {
        State next = state;
        change(next.workers[i]);
        something_happens = true;
        reach(next);
      };
      if (worker.finished < worker.started) move([](Worker& w) { ++w.finished; });
      const Wave waves = pushed(i, worker.finished);
      for (int s = 0; s < shards_; ++s) {
        if (worker.arrived[s] < waves) move([s](Worker& w) { ++w.arrived[s]; });
      }
      if (const auto label = may_start(state, i, clock)) {
        const Minibatch unseen = std::max<Minibatch>(0, worker.started - *label * rules_.in_flight);
        found_.worst_staleness = std::max(found_.worst_staleness, unseen);
        move([&](Worker& w) {
          ++w.started;
          w.label = static_cast<int>(*label);
        });
      }
      if (testing::Test::HasFailure()) return;
    }
    ASSERT_TRUE(something_happens || all_done) << "a deadlock";
  }

  // The label with which the worker's next minibatch may start now. What the clock says is judged
  // here.
  std::optional<Label> may_start(const State& state, int i, WaveClock& clock) {
    const Worker& worker = state.workers[i];
    const Minibatch p = worker.started;
    if (p == rules_.end[static_cast<std::size_t>(i)] || p - worker.finished == rules_.in_flight)
      return std::nullopt;
    EXPECT_LE(rules_.visible_updates(p),
              std::max<Minibatch>(worker.finished, rules_.first_minibatch()))
        << "an own update is due that is not computed";
    const auto gate = rules_.gate_before(p);
    if (!gate) return worker.label;
    bool open =
        true;  // every other worker has pushed wave w-1-D, or all that it has, to every shard
    for (int j = 0; j < rules_.workers(); ++j) {
      const Wave due = std::min(*gate - rules_.distance, rules_.end_wave(VirtualWorkerId{j}));
      for (int s = 0; s < shards_; ++s) open &= state.workers[j].arrived[s] >= due;
    }
    const auto label = clock.decide_gate(VirtualWorkerId{i}, *gate);
    EXPECT_EQ(label.has_value(), open);
    if (!label) {
      ++found_.closed_gates;
      return std::nullopt;
    }
    EXPECT_GE(*label, std::max(*gate - rules_.distance, rules_.first_wave));
    EXPECT_LE(*label, std::max(clock.global_clock(), rules_.first_wave));
    EXPECT_GE(*label, worker.label) << "labels of a worker never go back";
    if (rules_.pull == PullRule::bound) {
      EXPECT_EQ(*label, std::max(*gate - rules_.distance, rules_.first_wave));
    }
    return label;
  }

  WaveRules rules_;
  int shards_;
  std::unordered_set<std::uint64_t> seen_;
  std::vector<State> to_visit_;
  Found found_;
};

// As many waves as it takes for a gate to be shut by somebody else (D + 2); workers take one
// minibatch more than that, or none.
WaveRules small_run(int workers, int in_flight, Wave distance, PullRule pull, Wave first_wave,
                    bool uneven) {
  WaveRules rules{.in_flight = in_flight,
                  .distance = distance,
                  .pull = pull,
                  .first_wave = first_wave,
                  .end = {}};
  const Minibatch whole = (first_wave + distance + 2) * in_flight;
  for (int i = 0; i < workers; ++i) rules.end.push_back(whole + (uneven && i == 0 ? 1 : 0));
  return rules;
}

void expect_rules_kept(const WaveRules& rules, int shards) {
  SCOPED_TRACE(testing::Message() << rules.workers() << " workers, " << shards << " shards, Nm "
                                  << rules.in_flight << " D " << rules.distance
                                  << (rules.pull == PullRule::bound ? " bound" : " newest")
                                  << " first wave " << rules.first_wave);
  const Walk::Found found = Walk(rules, shards).run();
  EXPECT_EQ(found.worst_staleness, rules.global_staleness());
  if (rules.workers() > 1) {
    EXPECT_EQ(found.furthest_apart, rules.distance + 1);  // as far as D allows, and no further
    EXPECT_GT(found.closed_gates, 0u);
  }
}

class WaveClockWalk : public testing::TestWithParam<int> {};

TEST_P(WaveClockWalk, EveryInterleavingKeepsTheRules) {
  const int workers = GetParam();
  for (int in_flight = 1; in_flight <= 3; ++in_flight) {
    for (Wave distance = 0; distance <= 2; ++distance) {
      for (const PullRule pull : {PullRule::bound, PullRule::newest}) {
        for (int shards = 1; shards <= 2; ++shards) {
          // Three workers on two shards have millions of states where much is in flight.
          if (workers == 3 && shards == 2 && in_flight * (distance + 2) > 6) continue;
          expect_rules_kept(small_run(workers, in_flight, distance, pull, 0, false), shards);
        }
        expect_rules_kept(small_run(workers, in_flight, distance, pull, 0, true), 1);
        if (workers == 2)
          expect_rules_kept(small_run(workers, in_flight, distance, pull, 2, true), 2);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, WaveClockWalk, testing::Values(1, 2, 3));

}  // namespace wave_clock_test
}  // namespace hetpipe
