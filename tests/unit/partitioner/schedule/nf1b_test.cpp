// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "partitioner/schedule/counts.h"
#include "partitioner/schedule/lower.h"
#include "partitioner/schedule/timetable.h"

// nF1B (TiMePReSt, arXiv 2410.14312) for W = 2 ... 12 stages and N = 2 ... 8 micro-batches: in
// every slot every stage does what the rule says, which leaves one schedule only.
namespace hetpipe {
namespace nf1b_test {

constexpr Minibatch kMinibatches = 14;

// When each F and B is over, in slots.
class Table {
 public:
  Table(const Schedule& schedule, const Timetable& times) : does_(schedule.size()) {
    for (std::size_t s = 0; s < schedule.size(); ++s) {
      for (std::size_t i = 0; i < schedule[s].size(); ++i) {
        const Action& action = schedule[s][i];
        ends_[{s, action.kind, action.minibatch, action.micro}] = static_cast<int>(times.end[s][i]);
        does_[s][static_cast<int>(times.start[s][i])] = action;
      }
    }
  }
  bool is_over(std::size_t stage, ActionKind kind, Minibatch p, int micro, int slot) const {
    const auto at = ends_.find({stage, kind, p, micro});
    return at != ends_.end() && at->second <= slot;
  }
  std::string in_slot(std::size_t stage, int slot) const {
    const auto at = does_[stage].find(slot);
    return at == does_[stage].end() ? "." : to_string(at->second);
  }

 private:
  std::map<std::tuple<std::size_t, ActionKind, Minibatch, int>, int> ends_;
  std::vector<std::map<int, Action>> does_;
};

// What stage s of `stages` is to do in a slot, from what is over before it.
std::string rule(const Table& table, std::size_t s, std::size_t stages, int micro_batches,
                 int slot) {
  const auto over = [&](std::size_t stage, ActionKind kind, Minibatch p, int micro) {
    return table.is_over(stage, kind, p, micro, slot);
  };
  constexpr ActionKind kForward = ActionKind::forward;
  constexpr ActionKind kBackward = ActionKind::backward;
  // A B that is ready goes first: all F of its minibatch are done here, its gradient is there.
  for (Minibatch p = 0; p < kMinibatches; ++p) {
    if (over(s, kBackward, p, 0)) continue;
    const bool own = over(s, kForward, p, micro_batches - 1);
    if (own && (s + 1 == stages || over(s + 1, kBackward, p, 0))) {
      return to_string(Action{kBackward, p});
    }
    break;  // in order
  }
  // Then the next F, if its activations are there; a new minibatch only while the stage holds fewer
  // than W - s.
  Minibatch held = 0;
  for (Minibatch p = 0; p < kMinibatches; ++p) {
    held += over(s, kForward, p, 0) && !over(s, kBackward, p, 0) ? 1 : 0;
  }
  for (Minibatch p = 0; p < kMinibatches; ++p) {
    for (int m = 0; m < micro_batches; ++m) {
      if (over(s, kForward, p, m)) continue;
      if (m == 0 && held >= static_cast<Minibatch>(stages - s)) return ".";
      if (s > 0 && !over(s - 1, kForward, p, m)) return ".";
      return to_string(Action{kForward, p, m});
    }
  }
  return ".";
}

TEST(NF1B, DoesWhatTheRuleSaysInEverySlot) {
  for (int w = 2; w <= 12; ++w) {
    for (int n = 2; n <= 8; ++n) {
      const Schedule schedule = generate(ScheduleRule::nf1b, {w, 1, n, 1, {}, 0, kMinibatches});
      const Timetable times = play_in_slots(schedule);
      const Table table(schedule, times);
      const auto stages = static_cast<std::size_t>(w);
      for (int slot = 0; slot < static_cast<int>(times.length); ++slot) {
        for (std::size_t s = 0; s < stages; ++s) {
          ASSERT_EQ(table.in_slot(s, slot), rule(table, s, stages, n, slot))
              << "W " << w << " N " << n << " stage " << s << " slot " << slot;
        }
      }
    }
  }
}

// v = ceil(W / (N + 1)); what is printed, floor((W + N - 2) / N), fails at three sizes of W <= 8.
TEST(NF1B, VersionDifferences) {
  std::vector<std::pair<int, int>> printed_fails;
  for (int w = 2; w <= 12; ++w) {
    for (int n = 2; n <= 8; ++n) {
      const ScheduleRequest request = steady_request(ScheduleRule::nf1b, {w, 1, n});
      const int v = count_update_sequences(generate(ScheduleRule::nf1b, request));
      EXPECT_EQ(v, (w + n) / (n + 1)) << w << " stages, " << n << " micro-batches";
      if (w <= 8 && v != (w + n - 2) / n) printed_fails.emplace_back(w, n);
    }
  }
  EXPECT_EQ(printed_fails, (std::vector<std::pair<int, int>>{{6, 2}, {8, 2}, {8, 3}}));
}

// (W - 1) (N + 1) per minibatch, against 2 (W - 1) N with a B per micro-batch: 2 / 3 at N = 3.
TEST(NF1B, Messages) {
  const auto messages = [](ScheduleRule rule, int w, int n) {
    std::int64_t count = 0;
    for (const StageActions& actions : lower(generate(rule, {w, 1, n}), {})) {
      for (const Action& action : actions) count += action.kind == ActionKind::send ? 1 : 0;
    }
    return count;
  };
  for (int w = 2; w <= 12; ++w) {
    for (int n = 2; n <= 8; ++n) {
      EXPECT_EQ(messages(ScheduleRule::nf1b, w, n), (w - 1) * (n + 1));
      EXPECT_EQ(messages(ScheduleRule::flush_1f1b, w, n), 2 * (w - 1) * n);
    }
    EXPECT_EQ(3 * messages(ScheduleRule::nf1b, w, 3), 2 * messages(ScheduleRule::flush_1f1b, w, 3));
  }
}

}  // namespace nf1b_test
}  // namespace hetpipe
