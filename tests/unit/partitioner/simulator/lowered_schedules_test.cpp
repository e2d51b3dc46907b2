// SPDX-License-Identifier: Apache-2.0
// What simulations leave to the next: schedules, and the memory of their jobs.
#include "partitioner/simulator/lowered_schedules.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

#include "../planners/six_devices.h"
#include "partitioner/planners/planner.h"
#include "partitioner/simulator/simulate.h"
#include "partitioner/simulator/simulation_memory.h"

namespace hetpipe {
namespace lowered_schedules_test {

struct Asked {
  ScheduleRule rule = ScheduleRule::continuous_1f1b;
  ScheduleRequest request{.stages = 3, .micro_batches = 4, .in_flight = 4, .end = 8};
  Lowering how{.sync = StageSync::waves, .in_flight = 4, .end = 8};
};

// Each part of what is asked for changed by itself.
std::vector<Asked> all_asked() {
  std::vector<Asked> all;
  const auto ask = [&](const std::function<void(Asked&)>& change) {
    Asked asked;
    change(asked);
    all.push_back(asked);
  };
  ask([](Asked&) {});
  ask([](Asked& a) { a.request.end = a.how.end = 12; });
  ask([](Asked& a) { a.request.first = a.how.first = 4; });
  ask([](Asked& a) { a.request.stages = 2; });
  ask([](Asked& a) { a.request.in_flight = 3; });
  ask([](Asked& a) { a.how.sync = StageSync::all_reduce; });
  ask([](Asked& a) { a.how.in_flight = 8; });
  ask([](Asked& a) { a.how.round = 2; });
  ask([](Asked& a) { a.how.recompute = {false, true, false}; });
  ask([](Asked& a) { a.how.recompute = {false, false, true}; });
  for (const ScheduleRule rule : {ScheduleRule::gpipe, ScheduleRule::flush_1f1b,
                                  ScheduleRule::dapple_pa, ScheduleRule::zb_h1}) {
    ask([&](Asked& a) { a.rule = rule; });
    ask([&](Asked& a) {
      a.rule = rule;
      a.request.micro_batches = 6;
    });
  }
  ask([](Asked& a) {
    a.rule = ScheduleRule::dapple_pa;
    a.request.most_held = 2;
  });
  return all;
}

TEST(LoweredSchedules, AreThoseThatAreAskedFor) {
  LoweredSchedules schedules;
  std::set<const Schedule*> different;
  std::vector<std::shared_ptr<const Schedule>> kept;
  for (int again = 0; again < 2; ++again) {
    for (const Asked& asked : all_asked()) {
      kept.push_back(schedules.of(asked.rule, asked.request, asked.how));
      EXPECT_EQ(*kept.back(), lower(generate(asked.rule, asked.request), asked.how));
      different.insert(kept.back().get());
    }
  }
  EXPECT_EQ(different.size(), all_asked().size());  // each is made once
}

// It forgets, but not what somebody still has.
TEST(LoweredSchedules, TakeSoMuchAtMost) {
  LoweredSchedules schedules(100);  // actions
  const Asked asked;
  const auto first = schedules.of(asked.rule, asked.request, asked.how);
  const Schedule copy = *first;
  Asked other;
  other.request.stages = 4;
  schedules.of(other.rule, other.request, other.how);
  EXPECT_NE(schedules.of(asked.rule, asked.request, asked.how), first);
  EXPECT_EQ(*first, copy);
}

// Plans of different sizes one after the other, and one that is given up in between.
TEST(SimulationMemories, LeaveNothingBehind) {
  PlanRequest request = test::six_devices(SystemChoice::requested);
  SimulationMemory memory;
  for (const char* system : {"hetpipe", "gpipe", "pipedream", "ssp", "zero-bubble", "hetpipe"}) {
    request.system = system;
    Plan plan = make_plan(request);
    if (plan.server) {  // with gates
      plan.server->clock_distance = 1;
      plan.server->pull = "newest";
    }
    SimulationRequest how;
    how.keep_events = true;
    const Simulation own = simulate(plan, request.cluster, request.profile, how);
    how.memory = &memory;
    how.most_rates = 1;
    try {
      simulate(plan, request.cluster, request.profile, how);
    } catch (const TooManyRates&) {
    }
    how.most_rates = 0;
    const Simulation reused = simulate(plan, request.cluster, request.profile, how);
    EXPECT_EQ(reused.throughput, own.throughput) << system;
    EXPECT_EQ(reused.actions, own.actions) << system;
    EXPECT_EQ(reused.rates, own.rates) << system;
    EXPECT_EQ(reused.label_age, own.label_age) << system;
    EXPECT_EQ(reused.complete, own.complete) << system;
    EXPECT_EQ(reused.gates, own.gates) << system;
    ASSERT_EQ(reused.stages.size(), own.stages.size());
    for (std::size_t i = 0; i < own.stages.size(); ++i) {
      EXPECT_EQ(reused.stages[i].busy_seconds, own.stages[i].busy_seconds) << system;
      EXPECT_EQ(reused.stages[i].memory, own.stages[i].memory) << system;
    }
    ASSERT_EQ(reused.events.size(), own.events.size()) << system;
    for (std::size_t i = 0; i < own.events.size(); ++i) {
      EXPECT_EQ(reused.events[i].action, own.events[i].action) << system;
      EXPECT_EQ(reused.events[i].end, own.events[i].end) << system;
    }
  }
}

}  // namespace lowered_schedules_test
}  // namespace hetpipe
