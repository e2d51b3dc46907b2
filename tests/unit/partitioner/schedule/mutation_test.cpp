// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "../cases.h"
#include "partitioner/schedule/generate.h"
#include "partitioner/schedule/lower.h"

// Whatever is done to a schedule: validate() refuses it where it is broken, and only there. What is
// broken is decided by a player that knows messages as queues and nothing of validate().
namespace hetpipe {
namespace mutation_test {

using Rule = ScheduleRule;

struct Case {
  Rule rule;
  ScheduleRequest request;
  ScheduleForm form;
  Schedule schedule;
  std::string name;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& name : schedule_names()) {
    const Rule rule = *try_parse_schedule_rule(name);
    for (int stages = 1; stages <= 3; ++stages) {
      for (const int micro_batches : {1, 2, 3}) {
        ScheduleRequest request{stages, 1, micro_batches, 2, {}, 0, 5};
        if (rule == Rule::interleaved_1f1b) request.chunks = 2;
        if (micro_batches == 3) request.end = 3;
        if (!why_impossible(rule, request).empty()) continue;
        for (const StageSync sync : {StageSync::all_reduce, StageSync::waves}) {
          for (const bool recompute : {false, true}) {
            const ScheduleForm form = form_of(rule, request, sync);
            Lowering how{sync, form.in_flight, 0, request.end, {}};
            how.recompute.assign(static_cast<std::size_t>(stages * request.chunks), recompute);
            all.push_back({rule, request, form, lower(generate(rule, request), how),
                           name + " " + std::to_string(stages) + " stages " +
                               std::to_string(micro_batches) + " micro-batches"});
          }
        }
      }
    }
  }
  return all;
}

// Plays a schedule that has all actions of a right one, in some order.
class Player {
 public:
  Player(const Case& c, const Schedule& schedule)
      : c_(c), schedule_(schedule), next_(schedule.size()), here_(schedule.size()) {}

  bool comes_through() {
    for (bool moved = true; moved && !broken_;) {
      moved = false;
      for (std::size_t k = 0; k < schedule_.size(); ++k) {
        while (!broken_ && next_[k] < schedule_[k].size() && step(k, schedule_[k][next_[k]])) {
          ++next_[k];
          moved = true;
        }
      }
    }
    for (std::size_t k = 0; k < schedule_.size(); ++k) {
      if (next_[k] < schedule_[k].size()) return false;
    }
    for (const auto& [channel, messages] : channels_) {
      if (!messages.empty()) return false;
    }
    return !broken_;
  }

 private:
  using Pass = std::tuple<Minibatch, int, int>;  // minibatch, micro-batch, chunk
  struct Stage {
    std::map<ActionKind, std::set<Pass>> done;
    std::set<Pass> received[2], sent[2];  // activations, gradients
  };
  enum class Next { goes_on, waits };

  int devices() const { return static_cast<int>(schedule_.size()); }
  int last() const { return devices() * c_.request.chunks - 1; }
  bool messages() const { return devices() > 1; }
  bool by_minibatch() const { return c_.form.backward == BackwardForm::by_minibatch; }
  int forwards() const { return c_.rule == Rule::continuous_1f1b ? 1 : c_.request.micro_batches; }
  bool done(std::size_t k, ActionKind kind, Minibatch p, int micro = 0, int chunk = 0) {
    return here_[k].done[kind].count({p, micro, chunk}) != 0;
  }
  // All F (or all B and W) of a minibatch.
  int count(std::size_t k, ActionKind kind, Minibatch p) {
    const auto& done = here_[k].done[kind];
    return static_cast<int>(std::count_if(done.begin(), done.end(),
                                          [&](const Pass& x) { return std::get<0>(x) == p; }));
  }
  bool through(std::size_t k, Minibatch p) {
    const int backwards = c_.request.chunks * (by_minibatch() ? 1 : forwards());
    return count(k, ActionKind::backward, p) == backwards &&
           (c_.form.backward != BackwardForm::split ||
            count(k, ActionKind::weight_gradient, p) == backwards);
  }
  bool must(bool condition) {
    broken_ = broken_ || !condition;
    return condition;
  }

  // False: it has to wait, or something is wrong for good (broken_).
  bool step(std::size_t k, const Action& a) {
    Stage& stage = here_[k];
    const Pass pass{a.minibatch, a.micro, a.chunk};
    const int at = a.chunk * devices() + static_cast<int>(k);
    if (!must(stage.done[a.kind].count(pass) == 0 || a.kind == ActionKind::send ||
              a.kind == ActionKind::receive)) {
      return false;
    }
    switch (a.kind) {
      case ActionKind::forward:
        if (messages() && at > 0 && !must(stage.received[0].count(pass) != 0)) return false;
        if (!messages() && a.chunk > 0 &&
            !must(done(k, ActionKind::forward, a.minibatch, a.micro, a.chunk - 1))) {
          return false;
        }
        if (!must(few_enough(k, a.minibatch))) return false;
        break;
      case ActionKind::backward:
        for (int m = 0; m < (by_minibatch() ? forwards() : 1); ++m) {
          const int micro = by_minibatch() ? m : a.micro;
          if (!must(done(k, ActionKind::forward, a.minibatch, micro, a.chunk))) return false;
        }
        if (messages() && at < last() && !must(stage.received[1].count(pass) != 0)) return false;
        if (!messages() && at < last() &&
            !must(done(k, ActionKind::backward, a.minibatch, a.micro, a.chunk + 1))) {
          return false;
        }
        break;
      case ActionKind::weight_gradient:
        if (!must(done(k, ActionKind::backward, a.minibatch, a.micro, a.chunk))) return false;
        break;
      case ActionKind::recompute:
        if (!must(done(k, ActionKind::forward, a.minibatch, a.micro, a.chunk)) ||
            !must(!done(k, ActionKind::backward, a.minibatch, by_minibatch() ? 0 : a.micro,
                        a.chunk))) {
          return false;
        }
        break;
      case ActionKind::send: {
        const bool gradient = a.payload == Payload::gradients;
        const ActionKind made = gradient ? ActionKind::backward : ActionKind::forward;
        if (!must(done(k, made, a.minibatch, a.micro, a.chunk)) ||
            !must(gradient ? at > 0 : at < last()) ||
            !must(stage.sent[gradient].insert(pass).second)) {
          return false;
        }
        channels_[{at % devices(), (at + (gradient ? devices() * 2 - 1 : 1)) % devices(), gradient}]
            .push_back({a.minibatch, a.micro, at + (gradient ? -1 : 1)});
        break;
      }
      case ActionKind::receive: {
        const bool gradient = a.payload == Payload::gradients;
        if (!must(gradient ? at < last() : at > 0)) return false;
        if (gradient && !must(done(k, ActionKind::forward, a.minibatch, a.micro, a.chunk))) {
          return false;
        }
        auto& channel = channels_[{(at + (gradient ? 1 : devices() * 2 - 1)) % devices(),
                                   at % devices(), gradient}];
        if (channel.empty()) return false;  // waits
        if (!must(channel.front() == Pass{a.minibatch, a.micro, at})) return false;
        channel.pop_front();
        stage.received[gradient].insert(pass);
        break;
      }
      case ActionKind::update:
        if (!must(through(k, a.minibatch))) return false;
        if (c_.form.sync == StageSync::all_reduce &&
            !must(done(k, ActionKind::push, a.minibatch))) {
          return false;
        }
        break;
      case ActionKind::push:
        if (!must(through(k, a.minibatch))) return false;
        if (c_.form.sync == StageSync::waves && !must(done(k, ActionKind::update, a.minibatch))) {
          return false;
        }
        break;
      case ActionKind::pull:
        if (!must(count(k, ActionKind::forward, a.minibatch) == 0)) return false;
        if (k > 0 &&
            !must(stage.received[0].lower_bound({a.minibatch, 0, 0}) != stage.received[0].end() &&
                  std::get<0>(*stage.received[0].lower_bound({a.minibatch, 0, 0})) ==
                      a.minibatch)) {
          return false;
        }
        for (std::size_t other = 0; other < schedule_.size(); ++other) {
          if (!done(other, ActionKind::push, a.minibatch - c_.form.in_flight))
            return false;  // waits
        }
        break;
      default:
        return must(false);
    }
    stage.done[a.kind].insert(pass);
    return true;
  }

  // A forward sees all updates but those of the minibatches in flight, which are so many at most.
  bool few_enough(std::size_t k, Minibatch p) {
    int open = 1;
    for (Minibatch q = c_.request.first; q < c_.request.end; ++q) {
      if (q == p) continue;
      const int backwards = count(k, ActionKind::backward, q);
      const int forwards_done = count(k, ActionKind::forward, q);
      const bool all_taken = by_minibatch() ? backwards > 0 : backwards == forwards_done;
      if (forwards_done > 0 && !all_taken) ++open;
      if (q <= p - c_.form.in_flight && !done(k, ActionKind::update, q)) return false;
    }
    return open <= c_.form.in_flight;
  }

  const Case& c_;
  const Schedule& schedule_;
  std::vector<std::size_t> next_;
  std::vector<Stage> here_;
  std::map<std::tuple<int, int, bool>, std::deque<Pass>> channels_;
  bool broken_ = false;
};

bool refused(const Case& c, const Schedule& schedule) {
  return !test::user_error([&] { validate(schedule, c.form); }).empty();
}

std::string shown(const Schedule& schedule) {
  std::string text;
  for (const StageActions& actions : schedule) text += "\n  " + to_string(actions);
  return text;
}

TEST(Mutations, WhatIsLoweredPasses) {
  const auto all = cases();
  EXPECT_GE(all.size(), 300u);
  for (const Case& c : all) {
    EXPECT_EQ(test::user_error([&] { validate(c.schedule, c.form); }), "") << c.name;
    EXPECT_TRUE(Player(c, c.schedule).comes_through()) << c.name << shown(c.schedule);
  }
}

TEST(Mutations, AnActionThatIsMissingOrDoneTwice) {
  int refusals = 0;
  for (const Case& c : cases()) {
    for (std::size_t k = 0; k < c.schedule.size(); ++k) {
      for (std::size_t i = 0; i < c.schedule[k].size(); ++i) {
        const auto place = static_cast<std::ptrdiff_t>(i);
        Schedule mutant = c.schedule;
        mutant[k].erase(mutant[k].begin() + place);
        ASSERT_TRUE(refused(c, mutant)) << c.name << ": stage " << k << " without its action " << i
                                        << " " << to_string(c.schedule[k][i]) << shown(mutant);
        mutant = c.schedule;
        mutant[k].insert(mutant[k].begin() + place, c.schedule[k][i]);
        ASSERT_TRUE(refused(c, mutant)) << c.name << ": stage " << k << " with two of its action "
                                        << i << " " << to_string(c.schedule[k][i]) << shown(mutant);
        refusals += 2;
      }
    }
  }
  EXPECT_GE(refusals, 10000);
}

TEST(Mutations, AnActionOfAnotherMinibatchMicroBatchOrChunk) {
  for (const Case& c : cases()) {
    for (std::size_t k = 0; k < c.schedule.size(); ++k) {
      for (std::size_t i = 0; i < c.schedule[k].size(); ++i) {
        for (int what = 0; what < 3; ++what) {
          Schedule mutant = c.schedule;
          Action& action = mutant[k][i];
          if (what == 0) ++action.minibatch;
          if (what == 1) ++action.micro;
          if (what == 2) action.chunk = 1 - action.chunk;
          ASSERT_TRUE(refused(c, mutant)) << c.name << ": stage " << k << " action " << i << " is "
                                          << to_string(action) << shown(mutant);
        }
      }
    }
  }
}

// Some swaps leave a schedule that works: a W later, a message sent a little later.
TEST(Mutations, SwapsAreRefusedWhereTheyBreakSomething) {
  std::mt19937 random(3);
  const auto below = [&](std::size_t n) { return random() % n; };
  int broken = 0;
  int harmless = 0;
  for (const Case& c : cases()) {
    for (std::size_t k = 0; k < c.schedule.size(); ++k) {
      const std::size_t n = c.schedule[k].size();
      for (std::size_t i = 0; i < 2 * n; ++i) {
        const std::size_t a = i < n ? i : below(n);
        const std::size_t b = i < n ? i + 1 : below(n);
        if (b >= n || c.schedule[k][a] == c.schedule[k][b]) continue;
        Schedule mutant = c.schedule;
        std::swap(mutant[k][a], mutant[k][b]);
        const bool works = Player(c, mutant).comes_through();
        (works ? harmless : broken) += 1;
        ASSERT_EQ(refused(c, mutant), !works)
            << c.name << ": stage " << k << " actions " << a << " and " << b << " swapped"
            << shown(mutant) << "\n"
            << test::user_error([&] { validate(mutant, c.form); });
      }
    }
  }
  EXPECT_GE(broken, 5000);
  EXPECT_GE(harmless, 1000);
}

}  // namespace mutation_test
}  // namespace hetpipe
