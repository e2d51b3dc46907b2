// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/periodic.h"

#include <gtest/gtest.h>

#include <string>

#include "partitioner/schedule/counts.h"
#include "partitioner/schedule/due_labels.h"

// The list of all actions is the oracle.
namespace hetpipe {
namespace periodic_test {

using Rule = ScheduleRule;

StageActions all_of(const PeriodicActions& actions) {
  StageActions all;
  for (std::int64_t i = 0; i < actions.size(); ++i) all.push_back(actions.at(i));
  return all;
}

Schedule listed(Rule rule, const ScheduleRequest& request, const Lowering& how) {
  return lower(generate(rule, request), how);
}

// Every rule, small sizes, runs that are short, long, and that end anywhere inside of a period.
TEST(Periodic, IsTheListOfAllActions) {
  int folded = 0, checked = 0;
  for (const std::string& name : schedule_names()) {
    const Rule rule = *try_parse_schedule_rule(name);
    for (const int stages : {1, 2, 3, 5}) {
      for (const int micro_batches : {1, 2, 5, 6}) {
        for (const int in_flight : {1, 3, 5}) {
          if (in_flight > 1 && !traits(rule).chooses_in_flight) continue;
          ScheduleRequest request{stages, 1, micro_batches, in_flight, {}, 0, 1};
          if (traits(rule).several_chunks && micro_batches % stages == 0) request.chunks = 2;
          if (!why_impossible(rule, request).empty()) continue;
          for (const StageSync sync : {StageSync::all_reduce, StageSync::waves}) {
            const bool waves = sync == StageSync::waves;
            if (waves && request.chunks > 1) continue;
            Lowering how{sync, waves ? form_of(rule, request, sync).in_flight : 1, 0, 1, {}};
            how.recompute.assign(static_cast<std::size_t>(stages * request.chunks), stages == 3);
            how.first = 2 * how.in_flight;
            for (const Minibatch first : {how.first, how.first + how.in_flight + 1}) {
              for (const Minibatch length : {1, 2, 7, 150, 151, 152, 153}) {
                request.first = first;
                request.end = how.end = first + length;
                SCOPED_TRACE(testing::Message()
                             << name << ", " << stages << " stages, " << micro_batches
                             << " micro-batches, " << in_flight << " in flight, waves " << waves
                             << ", minibatches " << first << " to " << request.end);
                const PeriodicSchedule schedule = periodic_schedule(rule, request, how);
                const Schedule all = listed(rule, request, how);
                ASSERT_EQ(schedule.size(), all.size());
                for (std::size_t k = 0; k < all.size(); ++k) {
                  ASSERT_EQ(all_of(schedule[k]), all[k]) << "stage " << k;
                  folded += schedule[k].periods > 0;
                }
                ++checked;
              }
            }
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 3000);
  EXPECT_GT(folded, 3000);
}

// A wave of stage 0 of 2, from one gate to the next.
TEST(Periodic, ThePartsOfAStage) {
  const Lowering how{StageSync::waves, 2, 0, 1000, {}};
  const PeriodicSchedule schedule =
      periodic_schedule(Rule::continuous_1f1b, {2, 1, 1, 2, {}, 0, 1000}, how);
  EXPECT_EQ(to_string(schedule[0].prologue), "F0 S0");
  EXPECT_EQ(to_string(schedule[0].period), "F1 S1 V0 B0 U0 F2 S2 V1 B1 U1 P1 L3");
  EXPECT_EQ(to_string(schedule[0].epilogue), "F999 S999 V998 B998 U998 V999 B999 U999 P999");
  EXPECT_EQ(schedule[0].step, 2);
  EXPECT_EQ(schedule[0].periods, 499);
}

// What a run that stops passes over.
TEST(Periodic, WhatComesBehind) {
  const Lowering how{StageSync::waves, 3, 0, 100, {}};
  for (const Minibatch end : {5, 100, 101}) {
    for (const PeriodicActions& stage :
         periodic_schedule(Rule::continuous_1f1b, {3, 1, 1, 3, {}, 0, end}, how)) {
      const StageActions all = all_of(stage);
      for (std::int64_t i = 0; i <= stage.size(); ++i) {
        Minibatch least = end;
        for (std::int64_t j = i; j < stage.size(); ++j) {
          least = std::min(least, all[static_cast<std::size_t>(j)].minibatch);
        }
        EXPECT_TRUE(stage.begins_at(i, least));
        EXPECT_TRUE(i == stage.size() || !stage.begins_at(i, least + 1)) << i;
      }
    }
  }
}

// ImageNet's 90 epochs and more: what is stored is a few minibatches.
TEST(Periodic, WhatIsStoredDoesNotGrow) {
  for (const std::string& name : schedule_names()) {
    const Rule rule = *try_parse_schedule_rule(name);
    const ScheduleRequest request{16, 1, 16, 16, {}, 0, 1'000'000'007};
    const StageSync sync = traits(rule).has_flush ? StageSync::all_reduce : StageSync::waves;
    const int in_flight = form_of(rule, request, sync).in_flight;
    const PeriodicSchedule schedule =
        periodic_schedule(rule, request, {sync, in_flight, 0, request.end, {}});
    std::size_t stored = 0;
    for (const PeriodicActions& stage : schedule) {
      stored += stage.prologue.size() + stage.period.size() + stage.epilogue.size();
      EXPECT_EQ(stage.at(stage.size() - 1).minibatch, request.end - 1);
    }
    EXPECT_LT(stored * sizeof(Action), 8u << 20) << name;
  }
}

// What holds of a run that is long enough for its periods holds of all longer ones.
TEST(Periodic, IsValid) {
  for (const std::string& name : schedule_names()) {
    const Rule rule = *try_parse_schedule_rule(name);
    ScheduleRequest request{3, 1, 3, 4, {}, 0, 1};
    request.end = steady_request(rule, request).end + 20 * request.in_flight;
    for (const StageSync sync : {StageSync::all_reduce, StageSync::waves}) {
      const ScheduleForm form = form_of(rule, request, sync);
      Schedule all;
      for (const PeriodicActions& stage :
           periodic_schedule(rule, request, {sync, form.in_flight, 0, request.end, {}})) {
        EXPECT_GT(stage.periods, 0) << name;
        all.push_back(all_of(stage));
      }
      validate(all, form);
    }
  }
}

std::string played(const std::string& actions, EventPlace place, const std::vector<Minibatch>& at) {
  const PeriodicActions all = without_period(parse_actions(actions));
  std::size_t next = 0;
  ActionCursor cursor(all, place, [&]() -> std::optional<Action> {
    if (next == at.size()) return std::nullopt;
    return Action{.kind = ActionKind::evaluate, .minibatch = at[next++]};
  });
  StageActions found;
  while (const auto action = cursor.next()) found.push_back(*action);
  return to_string(found);
}

TEST(ActionCursor, EventsStandAtTheirPlace) {
  const std::string actions = "V0 F0 B0 U0 V1 F1 B1 U1 V2 F2 B2 U2";
  EXPECT_EQ(played(actions, EventPlace::before_minibatch, {}), actions);
  EXPECT_EQ(played(actions, EventPlace::before_minibatch, {1, 3}),
            "V0 F0 B0 U0 E1 V1 F1 B1 U1 V2 F2 B2 U2 E3");
  EXPECT_EQ(played(actions, EventPlace::behind_update, {0, 2}),
            "V0 F0 B0 U0 E0 V1 F1 B1 U1 V2 F2 B2 U2 E2");
  EXPECT_EQ(played("", EventPlace::before_minibatch, {7}), "E7");
}

TEST(DueLabels, ByArithmetic) {
  DueLabels due{.after = 3, .end = 1'000'000'000'000, .every = 1000};
  due.first = 3;
  due.samples_before = 5;
  due.samples_of_wave = 10;
  due.samples_of_epoch = 100;
  EXPECT_EQ(due.next(0), 13);  // 105 samples
  EXPECT_EQ(due.next(13), 23);
  EXPECT_EQ(due.next(995), 1000);
  EXPECT_EQ(due.next(999'999'999'999), due.end);
  EXPECT_EQ(due.next(due.end), std::nullopt);
  EXPECT_TRUE(due.contains(13) && due.contains(2000) && due.contains(due.end));
  EXPECT_FALSE(due.contains(3) || due.contains(14) || due.contains(due.end + 1));
}

}  // namespace periodic_test
}  // namespace hetpipe
