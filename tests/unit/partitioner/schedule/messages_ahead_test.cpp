// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/messages_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "partitioner/schedule/counts.h"

// Against schedules that are played: all devices as far as they come, one of them only when nobody
// else can do anything.
namespace hetpipe {
namespace messages_ahead_test {

using Rule = ScheduleRule;

class Play {
 public:
  explicit Play(const Schedule& schedule) : schedule_(schedule), next_(schedule.size(), 0) {}

  bool ends(int d) const { return place(d) == actions(d).size(); }

  bool can_go(int d) const {
    if (ends(d)) return false;
    const Action& action = actions(d)[place(d)];
    const int from = d + (action.kind == ActionKind::forward    ? -1
                          : action.kind == ActionKind::backward ? 1
                                                                : 0);
    if (from == d || from < 0 || from == static_cast<int>(schedule_.size())) return true;
    return done_.contains({from, action.kind, action.minibatch, action.micro});
  }

  const Action& go(int d) {
    const Action& action = actions(d)[place(d)];
    done_.insert({d, action.kind, action.minibatch, action.micro});
    ++next_[static_cast<std::size_t>(d)];
    return action;
  }

  int count(int d, ActionKind kind) const {
    const StageActions& all = actions(d);
    return static_cast<int>(
        std::count_if(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(place(d)),
                      [&](const Action& action) { return action.kind == kind; }));
  }

 private:
  const StageActions& actions(int d) const { return schedule_[static_cast<std::size_t>(d)]; }
  std::size_t place(int d) const { return next_[static_cast<std::size_t>(d)]; }

  const Schedule& schedule_;
  std::vector<std::size_t> next_;
  std::set<std::tuple<int, ActionKind, Minibatch, int>> done_;
};

// Calls look(play, device, action) behind each action of a device.
template <class Look>
void play_late(const Schedule& schedule, int late, Look look) {
  Play play(schedule);
  const int devices = static_cast<int>(schedule.size());
  while (true) {
    bool moved = false;
    for (int d = 0; d < devices; ++d) {
      while (d != late && play.can_go(d)) {
        const Action& action = play.go(d);
        look(play, d, action);
        moved = true;
      }
    }
    if (moved) continue;
    if (!play.can_go(late)) break;
    look(play, late, play.go(late));
  }
  for (int d = 0; d < devices; ++d) ASSERT_TRUE(play.ends(d));
}

int gradients_ahead(const Schedule& schedule, int device, int most_held) {
  int ahead = 0;
  const bool split =
      std::any_of(schedule.front().begin(), schedule.front().end(),
                  [](const Action& action) { return action.kind == ActionKind::weight_gradient; });
  const auto& all = schedule[static_cast<std::size_t>(device)];
  const auto of_kind = [&](ActionKind kind) {
    return std::count_if(all.begin(), all.end(), [&](const Action& a) { return a.kind == kind; });
  };
  const int each = static_cast<int>(of_kind(ActionKind::forward) / of_kind(ActionKind::backward));
  play_late(schedule, device - 1, [&](const Play& play, int d, const Action& action) {
    if (d != device || action.kind != ActionKind::backward) return;
    const int sent = play.count(device, ActionKind::backward);
    const int gone = split ? play.count(device, ActionKind::weight_gradient) : each * (sent - 1);
    const int held = play.count(device, ActionKind::forward) - gone;
    const int waiting = sent - 1 - play.count(device - 1, ActionKind::backward);
    ahead = std::max(ahead, waiting - (most_held - held) / each);
  });
  return ahead;
}

TEST(MessagesAhead, AreWhatALateDeviceLeaves) {
  int none = 0, some = 0;
  for (const Rule rule :
       {Rule::continuous_1f1b, Rule::xpipe, Rule::nf1b, Rule::flush_1f1b, Rule::gpipe,
        Rule::dapple_pa, Rule::dapple_pb, Rule::zb_h1, Rule::zb_h2}) {
    for (int stages = 2; stages <= 5; ++stages) {
      for (const int micro_batches : {1, 2, 4, 7}) {
        for (const int in_flight : {1, 2, stages, 2 * stages + 1}) {
          const Schedule schedule =
              generate(rule, steady_request(rule, {stages, 1, micro_batches, in_flight}));
          const auto held = count_held(schedule);
          for (int d = 1; d < stages; ++d) {
            const HeldCounts& here = held[static_cast<std::size_t>(d)];
            const int ahead = gradients_ahead(schedule, d, here.together);
            ASSERT_EQ(here.ahead.gradients, ahead)
                << to_string(rule) << " of " << stages << ", M = " << micro_batches
                << ", Nm = " << in_flight << ", device " << d;
            ++(ahead > 0 ? some : none);
          }
          if (rule != Rule::continuous_1f1b) break;
        }
      }
    }
  }
  EXPECT_GT(none, 20);
  EXPECT_GT(some, 100);
}

// One that does not wait for room in a full pipeline is never more than counted ahead of the next.
TEST(MessagesAhead, ActivationsOfAFullPipeline) {
  for (const Rule rule : {Rule::continuous_1f1b, Rule::nf1b, Rule::flush_1f1b, Rule::zb_h2}) {
    for (int stages = 2; stages <= 5; ++stages) {
      for (const int in_flight : {1, stages, 2 * stages + 1, 3 * stages + 2}) {
        const Schedule schedule = generate(rule, steady_request(rule, {stages, 1, 4, in_flight}));
        const auto counts = count_held(schedule);
        for (int d = 0; d + 1 < stages; ++d) {
          int most = 0;
          play_late(schedule, d + 1, [&](const Play& play, int at, const Action& action) {
            if (at != d || action.kind != ActionKind::forward) return;
            if (play.count(d, ActionKind::backward) == 0) return;  // it fills
            most = std::max(
                most, play.count(d, ActionKind::forward) - play.count(d + 1, ActionKind::forward));
          });
          EXPECT_EQ(counts[static_cast<std::size_t>(d)].ahead.activations, std::max(0, most - 2))
              << to_string(rule) << " of " << stages << ", Nm = " << in_flight << ", device " << d;
        }
      }
    }
  }
}

// Nm = 8 on two devices: the first holds 8, the last 1.
TEST(MessagesAhead, OfMoreMinibatchesThanStages) {
  const auto held = count_held(
      generate(Rule::continuous_1f1b, steady_request(Rule::continuous_1f1b, {2, 1, 1, 8})));
  EXPECT_EQ(held[0].ahead, (MessagesAhead{.activations = 6, .gradients = 0}));
  EXPECT_EQ(held[1].ahead, (MessagesAhead{.activations = 0, .gradients = 7}));
}

}  // namespace messages_ahead_test
}  // namespace hetpipe
