// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "runtime/sync/wave_clock.h"

// Virtual workers of unequal and jittering speed, played event by event through WaveClock, and the
// worst staleness that any minibatch met: counted one by one, not by the formula.
namespace hetpipe {
namespace sync_staleness_test {

struct Pool {
  std::vector<double> seconds;  // of a minibatch, by virtual worker
  double jitter = 0;            // a duration is stretched by up to this factor more
  double delay = 0;             // of a push on its way to a shard, at most
  int shards = 1;
};

class Play {
 public:
  Play(const WaveRules& rules, const Pool& pool, std::uint64_t seed)
      : rules_(rules),
        pool_(pool),
        clock_(rules, pool.shards),
        seed_(seed),
        workers_(pool.seconds.size()) {
    for (Worker& worker : workers_) {
      worker.started = worker.finished = rules.first_minibatch();
      worker.label = worker.seen = rules.first_wave;
      worker.arrival.resize(static_cast<std::size_t>(pool.shards));
    }
  }

  // The worst staleness; -1 if somebody never finished.
  Minibatch worst() {
    start_who_can(0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.shard < 0) {
        finish(event);
      } else {
        clock_.arrived(ShardId{event.shard}, VirtualWorkerId{event.worker}, event.wave);
      }
      start_who_can(event.time);
    }
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].finished != rules_.end[i]) return -1;
    }
    return worst_;
  }
  Wave furthest_apart() const { return furthest_apart_; }

 private:
  struct Worker {
    Minibatch started = 0;   // one past the newest
    Minibatch finished = 0;  // one past the newest
    double busy_until = 0;
    std::vector<double> arrival;  // of the newest push, by shard
    Label label = 0;
    Wave gate = 0;  // the last one passed: by arrival, waves below it are in the newest label
    Wave seen = 0;  // waves of the others in its own label
  };
  struct Event {
    double time = 0;
    std::uint64_t number = 0;
    int worker = 0;
    int shard = -1;  // -1: a minibatch is finished
    Wave wave = 0;
    bool operator>(const Event& other) const {
      return std::tie(time, number) > std::tie(other.time, other.number);
    }
  };

  double draw() { return random_uniform(seed_, draws_++); }

  void start_who_can(double now) {
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      while (try_start(static_cast<int>(i), now)) {
      }
    }
    Wave least = rules_.end_label(), most = 0;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const VirtualWorkerId vw{static_cast<int>(i)};
      if (clock_.finished(vw)) continue;
      least = std::min(least, clock_.clock(vw));
      most = std::max(most, clock_.clock(vw));
    }
    furthest_apart_ = std::max(furthest_apart_, most - least);
  }

  bool try_start(int i, double now) {
    Worker& worker = workers_[static_cast<std::size_t>(i)];
    const Minibatch p = worker.started;
    if (p == rules_.end[static_cast<std::size_t>(i)]) return false;
    if (p - worker.finished == rules_.in_flight) return false;
    if (const auto gate = rules_.gate_before(p)) {
      const auto label = clock_.decide_gate(VirtualWorkerId{i}, *gate);
      if (!label) return false;
      worker.label = *label;
      worker.gate = *gate;
      // By arrival of two.
      worker.seen = rules_.by_arrival() ? workers_[static_cast<std::size_t>(1 - i)].gate : *label;
    }
    Minibatch unseen =
        0;  // of any other worker: minibatches before p whose wave is not in the label
    for (Minibatch q = rules_.first_minibatch(); q < p; ++q) {
      if (q / rules_.in_flight >= worker.seen) ++unseen;
    }
    EXPECT_EQ(unseen, rules_.staleness(p, worker.label));
    worst_ = std::max(worst_, unseen);
    ++worker.started;
    worker.busy_until = std::max(worker.busy_until, now) +
                        pool_.seconds[static_cast<std::size_t>(i)] * (1 + pool_.jitter * draw());
    events_.push({worker.busy_until, number_++, i, -1, 0});
    return true;
  }

  void finish(const Event& event) {
    Worker& worker = workers_[static_cast<std::size_t>(event.worker)];
    const Minibatch p = worker.finished++;
    if (!rules_.ends_wave(VirtualWorkerId{event.worker}, p)) return;
    for (int s = 0; s < pool_.shards; ++s) {  // pushes do not overtake each other
      double& arrival = worker.arrival[static_cast<std::size_t>(s)];
      arrival = std::max(arrival, event.time + pool_.delay * draw());
      events_.push({arrival, number_++, event.worker, s, rules_.wave_of(p)});
    }
  }

  const WaveRules& rules_;
  const Pool& pool_;
  WaveClock clock_;
  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
  std::uint64_t number_ = 0;
  std::vector<Worker> workers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Minibatch worst_ = 0;
  Wave furthest_apart_ = 0;
};

const std::vector<Pool>& pools() {
  static const std::vector<Pool> all = {
      {{1, 1, 1}, 0, 0, 1},             // equals, in step
      {{1, 10, 1}, 0, .1, 2},           // one is ten times slower
      {{1, 1.4, 2.2, .7}, .5, 1.5, 2},  // unequal, jittering
      {{1, 1}, 3, 4, 3},                // mostly jitter and delay
      {{1, 1.1, 10, 1.3}, 1, .5, 1},
  };
  return all;
}

WaveRules rules_for(int in_flight, Wave distance, PullRule pull, const Pool& pool,
                    Wave first_wave = 0) {
  WaveRules rules{.in_flight = in_flight,
                  .distance = distance,
                  .pull = pull,
                  .first_wave = first_wave,
                  .end = {}};
  // Workers' numbers of minibatches differ by one at most; the last wave is partial where Nm > 1.
  for (std::size_t i = 0; i < pool.seconds.size(); ++i) {
    rules.end.push_back((first_wave + distance + 6) * in_flight + 1 + (i == 0 ? 1 : 0));
  }
  return rules;
}

// s_global = (D+1)(s_local+1) + s_local - 1 (arXiv 2005.14038), s_local = Nm - 1.
struct Row {
  int in_flight;
  Minibatch worst[3];  // at D = 0, 1, 4
};
constexpr Row kTable[] = {
    {1, {0, 1, 4}}, {2, {2, 4, 10}}, {3, {4, 7, 16}}, {4, {6, 10, 22}}, {7, {12, 19, 40}},
};
constexpr Wave kDistances[] = {0, 1, 4};

TEST(Staleness, TheWorstIsThatOfTheTable) {
  for (const Row& row : kTable) {
    for (int column = 0; column < 3; ++column) {
      for (std::size_t k = 0; k < pools().size(); ++k) {
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
          SCOPED_TRACE(testing::Message() << "Nm " << row.in_flight << " D " << kDistances[column]
                                          << " pool " << k << " seed " << seed);
          const WaveRules rules =
              rules_for(row.in_flight, kDistances[column], PullRule::bound, pools()[k]);
          EXPECT_EQ(rules.global_staleness(), row.worst[column]);
          Play play(rules, pools()[k], seed);
          EXPECT_EQ(play.worst(), row.worst[column]);
          EXPECT_LE(play.furthest_apart(), kDistances[column] + 1);
        }
      }
    }
  }
}

TEST(Staleness, NewestLabelsNeverExceedTheTable) {
  for (const Row& row : kTable) {
    for (int column = 0; column < 3; ++column) {
      Minibatch least = row.worst[column] + 1, most = 0;
      for (std::size_t k = 0; k < pools().size(); ++k) {
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
          SCOPED_TRACE(testing::Message() << "Nm " << row.in_flight << " D " << kDistances[column]
                                          << " pool " << k << " seed " << seed);
          const WaveRules rules =
              rules_for(row.in_flight, kDistances[column], PullRule::newest, pools()[k]);
          const Minibatch worst = Play(rules, pools()[k], seed).worst();
          ASSERT_GE(worst, 0) << "a rank never finished";
          least = std::min(least, worst);
          most = std::max(most, worst);
        }
      }
      EXPECT_EQ(most, row.worst[column]);  // where the others wait for one slow worker
      // Equals in step are one wave apart at most: where D allows more, they get later labels than
      // the bound's.
      if (kDistances[column] > 1) {
        EXPECT_LT(least, row.worst[column]);
      }
    }
  }
}

TEST(Staleness, AResumedRunMeetsTheSameWorst) {
  for (const Row& row : kTable) {
    const WaveRules rules = rules_for(row.in_flight, 1, PullRule::bound, pools()[2], 5);
    EXPECT_EQ(Play(rules, pools()[2], 3).worst(), row.worst[1]) << "Nm " << row.in_flight;
  }
}

// D without bound: the fast worker never waits for the slow one, who has barely begun when it ends;
// the slow one soon sees more of the fast one than it has itself.
TEST(Staleness, UnboundedIsAsynchronous) {
  const Pool pool{{1, 100}, 0, 0, 1};
  const WaveRules rules{.in_flight = 2,
                        .distance = kUnbounded,
                        .pull = PullRule::newest,
                        .first_wave = 0,
                        .end = {40, 40}};
  Play play(rules, pool, 0);
  EXPECT_EQ(play.worst(), 39);
  EXPECT_EQ(play.furthest_apart(), 19);  // 20 waves, and a finished worker has no clock
}

}  // namespace sync_staleness_test
}  // namespace hetpipe
