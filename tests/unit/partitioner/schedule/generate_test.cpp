// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "../cases.h"
#include "partitioner/schedule/timetable.h"
#include "zero_bubble_tables.h"

namespace hetpipe {
namespace generate_test {

using test::user_error;
using testing::HasSubstr;
using Rule = ScheduleRule;

// stages, chunks, micro-batches, in flight, D, first, end
std::string drawn(Rule rule, const ScheduleRequest& request) {
  return draw(generate(rule, request));
}

TEST(GPipe, TwoStagesThreeMicroBatches) {
  EXPECT_EQ(drawn(Rule::gpipe, {2, 1, 3}),
            "stage 0: F0   F0.1 F0.2 .    .    B0   B0.1 B0.2\n"
            "stage 1: .    F0   F0.1 F0.2 B0   B0.1 B0.2 .\n");
}

TEST(Flush1F1B, TwoStagesThreeMicroBatches) {
  EXPECT_EQ(drawn(Rule::flush_1f1b, {2, 1, 3}),
            "stage 0: F0   F0.1 .    B0   F0.2 B0.1 .    B0.2\n"
            "stage 1: .    F0   B0   F0.1 B0.1 F0.2 B0.2 .\n");
}

TEST(Dapple, PolicyA) {
  EXPECT_EQ(drawn(Rule::dapple_pa, {3, 1, 4}), drawn(Rule::flush_1f1b, {3, 1, 4}));
  EXPECT_EQ(drawn(Rule::dapple_pa, {2, 1, 2, 1, 1}),
            "stage 0: F0   .    .    B0   F0.1 .    .    B0.1\n"
            "stage 1: .    F0   B0   .    .    F0.1 B0.1 .\n");
}

TEST(Dapple, PolicyB) {
  EXPECT_EQ(drawn(Rule::dapple_pb, {2, 1, 4}),
            "stage 0: F0   F0.1 F0.2 B0   F0.3 B0.1 .    B0.2 .    B0.3\n"
            "stage 1: .    F0   B0   F0.1 B0.1 F0.2 B0.2 F0.3 B0.3 .\n");
}

// Stage i does K_i forwards before its first backward: min(S - i, D) and min(2 (S - i) - 1, D).
TEST(Dapple, WarmUpCounts) {
  const auto warm_ups = [](Rule rule, std::optional<int> most_held) {
    std::vector<int> counts;
    for (const StageActions& actions : generate(rule, {4, 1, 16, 1, most_held})) {
      int count = 0;
      while (actions[static_cast<std::size_t>(count)].kind == ActionKind::forward) ++count;
      counts.push_back(count);
    }
    return counts;
  };
  EXPECT_EQ(warm_ups(Rule::dapple_pa, {}), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(warm_ups(Rule::dapple_pa, 2), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(warm_ups(Rule::dapple_pb, {}), (std::vector<int>{7, 5, 3, 1}));
  EXPECT_EQ(warm_ups(Rule::dapple_pb, 4), (std::vector<int>{4, 4, 3, 1}));
}

TEST(Interleaved, TwoDevicesTwoChunksFourMicroBatches) {
  EXPECT_EQ(drawn(Rule::interleaved_1f1b, {2, 2, 4}),
            "stage 0: F0     F0.1   F0/1   F0.1/1 F0.2   B0/1   F0.3   B0.1/1 F0.2/1 B0     F0.3/1 "
            "B0.1   .      B0.2/1 .      B0.3/1 B0.2   B0.3\n"
            "stage 1: .      F0     F0.1   F0/1   B0/1   F0.1/1 B0.1/1 F0.2   B0     F0.3   B0.1   "
            "F0.2/1 B0.2/1 F0.3/1 B0.3/1 B0.2   B0.3   .\n");
}

TEST(Interleaved, OneChunkIsPlain) {
  EXPECT_EQ(drawn(Rule::interleaved_1f1b, {3, 1, 5}), drawn(Rule::flush_1f1b, {3, 1, 5}));
}

TEST(ZeroBubble, H1) {
  EXPECT_EQ(drawn(Rule::zb_h1, {3, 1, 4}),
            "stage 0: F0   F0.1 F0.2 .    .    B0   W0   F0.3 B0.1 W0.1 B0.2 W0.2 B0.3 W0.3\n"
            "stage 1: .    F0   F0.1 .    B0   F0.2 B0.1 W0   F0.3 B0.2 W0.1 B0.3 W0.2 W0.3\n"
            "stage 2: .    .    F0   B0   F0.1 B0.1 F0.2 B0.2 W0   F0.3 B0.3 W0.1 W0.2 W0.3\n");
}

TEST(ZeroBubble, H2) {
  EXPECT_EQ(drawn(Rule::zb_h2, {2, 1, 4}),
            "stage 0: F0   F0.1 F0.2 B0   W0   F0.3 B0.1 W0.1 B0.2 W0.2 B0.3 W0.3 .\n"
            "stage 1: .    F0   B0   F0.1 B0.1 F0.2 B0.2 W0   F0.3 B0.3 W0.1 W0.2 W0.3\n");
}

TEST(Continuous1F1B, Drawn) {
  EXPECT_EQ(drawn(Rule::continuous_1f1b, {3, 1, 1, 3, {}, 0, 4}),
            "stage 0: F0 F1 F2 .  .  B0 F3 B1 .  B2 .  B3\n"
            "stage 1: .  F0 F1 .  B0 F2 B1 F3 B2 .  B3 .\n"
            "stage 2: .  .  F0 B0 F1 B1 F2 B2 F3 B3 .  .\n");
}

TEST(XPipe, TwoStagesThreeMinibatchesOfTwo) {
  EXPECT_EQ(drawn(Rule::xpipe, {2, 1, 2, 1, {}, 0, 3}),
            "stage 0: F0   F0.1 .    B0   F1   B0.1 F1.1 B1   F2   B1.1 F2.1 B2   .    B2.1\n"
            "stage 1: .    F0   B0   F0.1 B0.1 F1   B1   F1.1 B1.1 F2   B2   F2.1 B2.1 .\n");
}

// The paper's table, minibatches 1 2 3 4 as 0 1 2 3 and micro-batches A B as .0 .1:
//   S0 1A 1B 2A 2B 3A 3B b1 4A 4B b2 | S1 . 1A 1B 2A 2B b1 3A 3B b2 4A
//   S2 . . 1A 1B b1 2A 2B b2 3A 3B
TEST(NF1B, ThreeStagesTwoMicroBatches) {
  EXPECT_EQ(
      drawn(Rule::nf1b, {3, 1, 2, 1, {}, 0, 4}),
      "stage 0: F0   F0.1 F1   F1.1 F2   F2.1 B0   F3   F3.1 B1   .    .    B2   .    .    B3\n"
      "stage 1: .    F0   F0.1 F1   F1.1 B0   F2   F2.1 B1   F3   F3.1 B2   .    .    B3   .\n"
      "stage 2: .    .    F0   F0.1 B0   F1   F1.1 B1   F2   F2.1 B2   F3   F3.1 B3   .    "
      ".\n");
}

const std::vector<Rule> kAll{
    Rule::continuous_1f1b, Rule::xpipe,     Rule::nf1b,      Rule::gpipe,
    Rule::flush_1f1b,      Rule::dapple_pa, Rule::dapple_pb, Rule::interleaved_1f1b,
    Rule::zb_h1,           Rule::zb_h2};

// Requests over many sizes; those that the rule refuses are left out.
template <class Check>
int over_sizes(Rule rule, const Check& check) {
  int checked = 0;
  for (int stages = 1; stages <= 6; ++stages) {
    for (const int chunks : {1, 2, 3}) {
      for (int micro_batches = 1; micro_batches <= 12; ++micro_batches) {
        for (const Minibatch first : {0, 3}) {
          for (const Minibatch count : {1, 2, 5}) {
            for (const std::optional<int> most_held :
                 {std::optional<int>{}, std::optional<int>{2}}) {
              const ScheduleRequest request{stages,    chunks, micro_batches, 1 + micro_batches % 4,
                                            most_held, first,  first + count};
              if (!why_impossible(rule, request).empty()) continue;
              check(request, generate(rule, request));
              ++checked;
            }
          }
        }
      }
    }
  }
  return checked;
}

// Every F, every B (one per minibatch for nF1B) and every W where it is apart: once, in this order.
TEST(Generate, DoesEverythingOnceAndInOrder) {
  for (const Rule rule : kAll) {
    const int checked = over_sizes(rule, [&](const ScheduleRequest& r, const Schedule& schedule) {
      const int micro = rule == Rule::continuous_1f1b ? 1 : r.micro_batches;
      const int backwards = rule == Rule::nf1b ? 1 : micro;
      const auto minibatches = static_cast<std::size_t>(r.end - r.first);
      ASSERT_EQ(schedule.size(), static_cast<std::size_t>(r.stages));
      for (const StageActions& actions : schedule) {
        std::set<std::tuple<ActionKind, Minibatch, int, int>> done;
        for (const Action& a : actions) {
          const auto was = [&](ActionKind kind, int m) {
            return done.count({kind, a.minibatch, m, a.chunk}) != 0;
          };
          ASSERT_TRUE(done.insert({a.kind, a.minibatch, a.micro, a.chunk}).second);
          ASSERT_TRUE(a.minibatch >= r.first && a.minibatch < r.end);
          ASSERT_TRUE(a.micro >= 0 && a.micro < micro && a.chunk >= 0 && a.chunk < r.chunks);
          if (a.kind == ActionKind::backward) {
            for (int m = 0; m < micro; ++m) {
              const bool needed = backwards == 1 || m == a.micro;
              ASSERT_TRUE(!needed || was(ActionKind::forward, m));
            }
          }
          if (a.kind == ActionKind::weight_gradient) {
            ASSERT_TRUE(was(ActionKind::backward, a.micro));
          }
        }
        const std::size_t passes = minibatches * static_cast<std::size_t>(r.chunks);
        const auto per_pass = static_cast<std::size_t>(
            micro + backwards + (traits(rule).backward == BackwardForm::split ? backwards : 0));
        ASSERT_EQ(done.size(), passes * per_pass) << to_string(rule);
      }
    });
    EXPECT_GE(checked, 300) << to_string(rule);
  }
}

TEST(Generate, NeverStandsStill) {
  for (const Rule rule : kAll) {
    over_sizes(rule, [&](const ScheduleRequest& r, const Schedule& schedule) {
      const Timetable table = play_in_slots(schedule);
      for (std::size_t k = 0; k < schedule.size(); ++k) {
        ASSERT_EQ(table.end[k].size(), schedule[k].size())
            << to_string(rule) << " stage " << k << " of " << r.stages;
      }
    });
  }
}

TEST(Generate, RefusesWhatARuleCannotDo) {
  const auto refusal = [](Rule rule, const ScheduleRequest& request) {
    return user_error([&] { generate(rule, request); });
  };
  EXPECT_THAT(refusal(Rule::interleaved_1f1b, {4, 2, 6}),
              HasSubstr("6 micro-batches on 4 devices"));
  EXPECT_THAT(refusal(Rule::gpipe, {4, 2, 8}), HasSubstr("2 chunks per device"));
  EXPECT_THAT(refusal(Rule::gpipe, {4, 1, 8, 1, 2}), HasSubstr("only DAPPLE"));
  EXPECT_THAT(refusal(Rule::dapple_pa, {4, 1, 8, 1, 0}), HasSubstr("at most 0"));
  EXPECT_THAT(refusal(Rule::zb_h1, {4, 1, 0}), HasSubstr("0 micro-batches"));
  EXPECT_THAT(refusal(Rule::zb_h1, {4, 1, 1, 1, {}, 3, 3}), HasSubstr("3 to 3"));
}

TEST(ScheduleRule, PrintsAndParsesBack) {
  EXPECT_EQ(schedule_names().size(), kAll.size());
  for (const Rule rule : kAll) EXPECT_EQ(try_parse_schedule_rule(to_string(rule)), rule);
  EXPECT_EQ(try_parse_schedule_rule("gpip"), std::nullopt);
}

TEST(Generate, TextParsesBack) {
  for (const Rule rule : kAll) {
    over_sizes(rule, [](const ScheduleRequest&, const Schedule& schedule) {
      for (const StageActions& actions : schedule) {
        ASSERT_EQ(parse_actions(to_string(actions)), actions);
      }
    });
  }
}

// Bubbles of equal stages, in slots (ALGORITHMS of the papers): the table's length beyond a
// device's own work.
TEST(Bubbles, EqualTheClosedForms) {
  const auto length = [](Rule rule, int p, int chunks, int m, const SlotLengths& lengths) {
    return play_in_slots(generate(rule, {p, chunks, m}), lengths).length;
  };
  for (int p = 1; p <= 8; ++p) {
    for (const int m : {2 * p, 3 * p, 5 * p}) {
      // GPipe and 1F1B: (p - 1) (F + B)
      const SlotLengths two{1, 2, 0, 0, 0};
      EXPECT_EQ(length(Rule::gpipe, p, 1, m, two), 3 * (m + p - 1));
      EXPECT_EQ(length(Rule::flush_1f1b, p, 1, m, two), 3 * (m + p - 1));
      EXPECT_EQ(length(Rule::dapple_pb, p, 1, m, two), 3 * (m + p - 1));
      // Interleaved: (p - 1) (F + B) of one chunk
      for (const int v : {2, 3, 4}) {
        EXPECT_EQ(length(Rule::interleaved_1f1b, p, v, m, two), 3 * (m * v + p - 1)) << p << v << m;
      }
      // Zero bubble: (p - 1) (F + B - W) and (p - 1) (F + B - 2 W), of the own first start to the
      // own end
      const SlotLengths split{4, 4, 2, 0, 0};
      for (const Rule rule : {Rule::zb_h1, Rule::zb_h2}) {
        const Timetable table = play_in_slots(generate(rule, {p, 1, m}), split);
        double cost = 0;
        for (std::size_t k = 0; k < table.end.size(); ++k) {
          cost = std::max(cost, table.end[k].back() - table.start[k].front());
        }
        EXPECT_EQ(cost, 10 * m + (p - 1) * (rule == Rule::zb_h1 ? 6 : 4)) << p << " " << m;
      }
    }
  }
}

TEST(ZeroBubble, BubbleRatesOfThePaper) {
  for (const test::ZeroBubbleRow& row : test::kZeroBubble) {
    const std::array rules{Rule::flush_1f1b, Rule::zb_h1, Rule::zb_h2};
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const double whole = i == 0 ? row.input_gradient + row.weight_gradient : row.input_gradient;
      const Timetable table =
          play_in_slots(generate(rules[i], {row.stages, 1, row.micro_batches}),
                        {row.forward, whole, row.weight_gradient, 0, row.message});
      double cost = 0;
      for (std::size_t k = 0; k < table.end.size(); ++k) {
        cost = std::max(cost, table.end[k].back() - table.start[k].front());
      }
      EXPECT_EQ(std::round(row.rate(cost) * 1e4), std::round(row.rates[i] * 1e4))
          << row.stages << " " << row.micro_batches << " " << i;
    }
  }
}

// docs/schedules.md shows what draw() gives, for every rule.
TEST(Drawings, AreThoseOfTheDocs) {
  std::ifstream file(std::string(HETPIPE_SOURCE_DIR) + "/docs/schedules.md");
  std::stringstream docs;
  docs << file.rdbuf();
  const std::map<Rule, ScheduleRequest> shown{{Rule::gpipe, {3, 1, 4}},
                                              {Rule::flush_1f1b, {3, 1, 4}},
                                              {Rule::dapple_pa, {3, 1, 4, 1, 2}},
                                              {Rule::dapple_pb, {3, 1, 6}},
                                              {Rule::interleaved_1f1b, {2, 2, 4}},
                                              {Rule::zb_h1, {3, 1, 4}},
                                              {Rule::zb_h2, {3, 1, 6}},
                                              {Rule::continuous_1f1b, {3, 1, 1, 3, {}, 0, 5}},
                                              {Rule::xpipe, {3, 1, 2, 1, {}, 0, 3}},
                                              {Rule::nf1b, {3, 1, 2, 1, {}, 0, 4}}};
  EXPECT_EQ(shown.size(), kAll.size());
  for (const auto& [rule, request] : shown) {
    EXPECT_THAT(docs.str(), HasSubstr("```\n" + drawn(rule, request) + "```\n"));
  }
}

}  // namespace generate_test
}  // namespace hetpipe
