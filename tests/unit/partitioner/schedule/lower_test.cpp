// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "../cases.h"
#include "partitioner/schedule/generate.h"

namespace hetpipe {
namespace lower_test {

using test::user_error;
using testing::HasSubstr;
using Rule = ScheduleRule;

std::vector<std::string> drawn(const Schedule& schedule) {
  std::vector<std::string> lines;
  for (const StageActions& actions : schedule) lines.push_back(to_string(actions));
  return lines;
}

std::vector<std::string> lowered(Rule rule, const ScheduleRequest& request, const Lowering& how) {
  const Schedule schedule = lower(generate(rule, request), how);
  validate(schedule, form_of(rule, request, how.sync));
  return drawn(schedule);
}

using Lines = std::vector<std::string>;

// P hands the gradients of a minibatch to the all-reduce, U waits for it.
TEST(Lower, FlushWithAllReduce) {
  EXPECT_EQ(
      lowered(Rule::flush_1f1b, {2, 1, 2}, {}),
      (Lines{"F0 S0 F0.1 S0.1 V0 B0 V0.1 B0.1 P0 U0", "V0 F0 B0 S0 V0.1 F0.1 B0.1 S0.1 P0 U0"}));
}

// A wave of one minibatch: pushed at its end, pulled before the next one begins.
TEST(Lower, FlushWithServer) {
  EXPECT_EQ(lowered(Rule::gpipe, {2, 1, 2, 1, {}, 0, 2}, {StageSync::waves, 1, 0, 2}),
            (Lines{"F0 S0 F0.1 S0.1 V0 B0 V0.1 B0.1 U0 P0 "
                   "L1 F1 S1 F1.1 S1.1 V1 B1 V1.1 B1.1 U1 P1",
                   "V0 F0 V0.1 F0.1 B0 S0 B0.1 S0.1 U0 P0 "
                   "V1 L1 F1 V1.1 F1.1 B1 S1 B1.1 S1.1 U1 P1"}));
}

// The gradient leaves before the W, the update waits for the last W.
TEST(Lower, SplitBackward) {
  EXPECT_EQ(lowered(Rule::zb_h1, {2, 1, 2}, {}),
            (Lines{"F0 S0 F0.1 S0.1 V0 B0 W0 V0.1 B0.1 W0.1 P0 U0",
                   "V0 F0 B0 S0 V0.1 F0.1 B0.1 S0.1 W0 W0.1 P0 U0"}));
}

// From the last device on to the next chunk at the first.
TEST(Lower, Chunks) {
  EXPECT_EQ(
      lowered(Rule::interleaved_1f1b, {2, 2, 2}, {}),
      (Lines{"F0 S0 F0.1 S0.1 V0/1 F0/1 S0/1 V0.1/1 F0.1/1 S0.1/1 V0/1 B0/1 S0/1 V0.1/1 B0.1/1 "
             "S0.1/1 V0 B0 V0.1 B0.1 P0 U0",
             "V0 F0 S0 V0.1 F0.1 S0.1 V0/1 F0/1 B0/1 S0/1 V0.1/1 F0.1/1 B0.1/1 S0.1/1 V0 B0 S0 "
             "V0.1 B0.1 S0.1 P0 U0"}));
  EXPECT_EQ(lowered(Rule::interleaved_1f1b, {1, 2, 1}, {}), (Lines{"F0 F0/1 B0/1 B0 P0 U0"}));
}

// Recomputation needs no gradient, so it does not wait for one.
TEST(Lower, Recompute) {
  EXPECT_EQ(lowered(Rule::flush_1f1b, {2, 1, 2}, {StageSync::all_reduce, 1, 0, 1, {true, false}}),
            (Lines{"F0 S0 F0.1 S0.1 R0 V0 B0 R0.1 V0.1 B0.1 P0 U0",
                   "V0 F0 B0 S0 V0.1 F0.1 B0.1 S0.1 P0 U0"}));
  EXPECT_EQ(
      lowered(Rule::interleaved_1f1b, {1, 2, 1}, {StageSync::all_reduce, 1, 0, 1, {false, true}}),
      (Lines{"F0 F0/1 R0/1 B0/1 B0 P0 U0"}));
}

// Activations by micro-batch, one gradient message per minibatch; both forwards are run again.
TEST(Lower, OneBackwardPerMinibatch) {
  EXPECT_EQ(lowered(Rule::nf1b, {2, 1, 2}, {StageSync::all_reduce, 1, 0, 1, {true, true}}),
            (Lines{"F0 S0 F0.1 S0.1 R0 R0.1 V0 B0 P0 U0", "V0 F0 V0.1 F0.1 R0 R0.1 B0 S0 P0 U0"}));
}

const std::vector<Rule> kAll{
    Rule::continuous_1f1b, Rule::xpipe,     Rule::nf1b,      Rule::gpipe,
    Rule::flush_1f1b,      Rule::dapple_pa, Rule::dapple_pb, Rule::interleaved_1f1b,
    Rule::zb_h1,           Rule::zb_h2};

template <class Check>
int over_sizes(const Check& check) {
  int checked = 0;
  for (const Rule rule : kAll) {
    for (int stages = 1; stages <= 5; ++stages) {
      for (const int chunks : {1, 2, 3}) {
        for (const int micro_batches : {1, 2, 4, 5, 10}) {
          for (const Minibatch count : {1, 4}) {
            const ScheduleRequest request{stages, chunks, micro_batches, 4, {}, 0, count};
            if (!why_impossible(rule, request).empty()) continue;
            check(rule, request);
            ++checked;
          }
        }
      }
    }
  }
  return checked;
}

TEST(Lower, IsValidForAllRulesAndSizes) {
  const int checked = over_sizes([](Rule rule, const ScheduleRequest& request) {
    const auto virtual_stages = static_cast<std::size_t>(request.stages * request.chunks);
    for (const StageSync sync : {StageSync::all_reduce, StageSync::waves}) {
      const ScheduleForm form = form_of(rule, request, sync);
      const Schedule schedule = generate(rule, request);
      validate(schedule, form);
      for (const bool recompute : {false, true}) {
        Lowering how{sync, form.in_flight, 0, request.end, {}};
        how.recompute.assign(virtual_stages, recompute);
        validate(lower(schedule, how), form);
      }
    }
  });
  EXPECT_GE(checked, 500);
}

// What a message carries crosses each cut once per micro-batch, forwards and backwards.
TEST(Lower, MessagesPerMinibatch) {
  over_sizes([](Rule rule, const ScheduleRequest& request) {
    std::map<Payload, int> count;
    const Schedule schedule = lower(generate(rule, request), {});
    for (const StageActions& actions : schedule) {
      for (const Action& action : actions) {
        if (action.kind == ActionKind::send) ++count[action.payload];
      }
    }
    const int cuts = request.stages == 1 ? 0 : request.stages * request.chunks - 1;
    const int micro = rule == Rule::continuous_1f1b ? 1 : request.micro_batches;
    const int passes = cuts * static_cast<int>(request.end);
    EXPECT_EQ(count[Payload::activations], passes * micro);
    // nF1B: (W - 1) (N + 1) messages in all, of which W - 1 are gradients
    EXPECT_EQ(count[Payload::gradients], passes * (rule == Rule::nf1b ? 1 : micro));
  });
}

// Stage 0 of XPipe begins the next minibatch before it is done with this one.
TEST(Lower, WavesShorterThanWhatIsHeld) {
  const ScheduleRequest request{3, 1, 2, 1, {}, 0, 6};
  const Schedule schedule = generate(Rule::xpipe, request);
  EXPECT_THAT(user_error([&] {
                lower(schedule, {StageSync::waves, 1, 0, 6});
              }),
              HasSubstr("waves of 1 minibatches, and stage 0 begins minibatch 1 before minibatch 0 "
                        "is done"));
  EXPECT_EQ(form_of(Rule::xpipe, request, StageSync::waves).in_flight, 2);
  validate(lower(schedule, {StageSync::waves, 2, 0, 6}),
           form_of(Rule::xpipe, request, StageSync::waves));
}

Schedule read(const Lines& lines) {
  Schedule schedule;
  for (const std::string& line : lines) schedule.push_back(parse_actions(line));
  return schedule;
}

struct Fault {
  Lines stages;
  ScheduleForm form;
  std::string what;
};

TEST(Validate, NamesFaultsOfEveryForm) {
  using B = BackwardForm;
  const ScheduleForm whole{1, B::whole, StageSync::all_reduce};
  const ScheduleForm split{1, B::split, StageSync::all_reduce};
  const ScheduleForm nf1b{2, B::by_minibatch, StageSync::all_reduce};
  const std::vector<Fault> faults{
      {{"F0 B0 W0"}, whole, "(W0): backward passes of this schedule are not split"},
      {{"F0 F0.1 B0 W0 B0.1"}, split, "(B0.1): this backward has no weight gradient"},
      {{"F0 W0 B0"}, split, "(W0): its backward does not come before it"},
      {{"F0 B0 W0 W0"}, split, "(W0): this weight gradient is done twice"},
      {{"F0 F0.1 B0"}, whole, "(F0.1): this forward has no backward"},
      {{"F0 B0 F0.1"}, nf1b, "(B0): not all forwards of its minibatch come before it"},
      {{"F0 F0.1 B0.1"}, nf1b, "(B0.1): one backward is for the whole minibatch"},
      {{"F0 F0.1 F1 F1.1 F2 F2.1 B0 B1 B2"}, nf1b, "(F2): more than in_flight = 2"},
      {{"F0 B0 U0 P0"}, whole, "(U0): its gradients are not given to the all-reduce"},
      {{"F0 F0.1 B0 P0 U0 B0.1"}, whole, "(P0): its backward does not come before it"},
      {{"F0 B0 P0 U0 W0"}, split, "(P0): its backward does not come before it"},
      {{"F0 B0 P0 U0 U0"}, whole, "(U0): this update is done twice"},
      {{"F0 F0/1 B0 B0/1"}, whole, "deadlock"},
      {{"F0 S0 V0/1 F0/1 S0/1 V0/1 B0/1 S0/1 V0 B0", "V0 F0 V0/1 F0/1 B0/1 S0/1 V0 B0 S0"},
       whole,
       "(F0): no send passes its activations on"},
      {{"F0 S0 F0.1 S0.1 V0 B0 P0 U0", "V0 F0 V0.1 F0.1 B0 V0.1 S0"},
       {1, B::by_minibatch, StageSync::all_reduce},
       "(V0.1): no stage on that side"},
  };
  for (const Fault& fault : faults) {
    const std::string error = user_error([&] { validate(read(fault.stages), fault.form); });
    EXPECT_THAT(error, HasSubstr(fault.what));
    EXPECT_THAT(error, HasSubstr("\n  stage 0: "));  // the table
  }
}

// Device 1 sends chunk 0 of both micro-batches on to chunk 1 at device 0, the second one first.
TEST(Validate, OrderOfMessagesBetweenChunks) {
  const std::string error = user_error([] {
    validate(read({"F0 S0 F0.1 S0.1 V0/1 F0/1 S0/1 V0.1/1 F0.1/1 S0.1/1 V0/1 B0/1 S0/1 V0.1/1 "
                   "B0.1/1 S0.1/1 V0 B0 V0.1 B0.1",
                   "V0 F0 V0.1 F0.1 S0.1 S0 V0/1 F0/1 B0/1 S0/1 V0.1/1 F0.1/1 B0.1/1 S0.1/1 V0 B0 "
                   "S0 V0.1 B0.1 S0.1"}),
             ScheduleForm{1, BackwardForm::whole, StageSync::all_reduce});
  });
  EXPECT_THAT(error, HasSubstr("(V0/1): stage 1 sends S0.1 at this point"));
}

}  // namespace lower_test
}  // namespace hetpipe
