// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"
#include "partitioner/schedule/lower.h"

namespace hetpipe {
namespace schedule_test {

using test::user_error;
using testing::HasSubstr;

std::vector<std::string> drawn(const Schedule& schedule) {
  std::vector<std::string> lines;
  for (const StageActions& actions : schedule) lines.push_back(to_string(actions));
  return lines;
}

Schedule read(const std::vector<std::string>& lines) {
  Schedule schedule;
  for (const std::string& line : lines) schedule.push_back(parse_actions(line));
  return schedule;
}

std::vector<int> held(int in_flight, int stages) {
  std::vector<int> result;
  for (int k = 0; k < stages; ++k)
    result.push_back(minibatches_held(in_flight, stages, StageId{k}));
  return result;
}

TEST(Action, PrintsAndParsesBack) {
  for (const char* text :
       {"F0", "B12", "F3.1", "F3.1/2@4", "V7@1", "W5/1", "L9", "P9", "E4", "C4"}) {
    const auto action = try_parse_action(text);
    ASSERT_TRUE(action) << text;
    EXPECT_EQ(to_string(*action), text);
  }
  EXPECT_EQ(*try_parse_action("F3.1/2@4"), (Action{ActionKind::forward, 3, 1, 2, 4}));
}

TEST(Action, RefusesWhatIsNone) {
  for (const char* text : {"", "F", "X1", "F-1", "F1.", "F1.x", "F1@2.3", "F1 ", "f1", "F1.-2"}) {
    EXPECT_FALSE(try_parse_action(text)) << text;
  }
  const std::string error = user_error([] { parse_actions("F0 G1 B0 F1x"); });
  EXPECT_THAT(error, HasSubstr("'G1' is not an action"));
  EXPECT_THAT(error, HasSubstr("'F1x' is not an action"));
}

// Front stages hold more, the last one holds 1.
TEST(MinibatchesHeld, FallsTowardsTheLastStage) {
  EXPECT_EQ(held(1, 1), (std::vector<int>{1}));
  EXPECT_EQ(held(4, 1), (std::vector<int>{1}));
  EXPECT_EQ(held(1, 3), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(held(2, 4), (std::vector<int>{2, 2, 2, 1}));
  EXPECT_EQ(held(3, 3), (std::vector<int>{3, 2, 1}));
  EXPECT_EQ(held(4, 4), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(held(6, 4), (std::vector<int>{6, 4, 2, 1}));
  EXPECT_EQ(held(8, 4), (std::vector<int>{8, 5, 3, 1}));
}

TEST(MinibatchesHeld, StageZeroHoldsAllThatAreInFlight) {
  for (int stages = 2; stages <= 8; ++stages) {
    for (int in_flight = 1; in_flight <= 20; ++in_flight) {
      const auto all = held(in_flight, stages);
      EXPECT_EQ(all.front(), in_flight);
      EXPECT_EQ(all.back(), 1);
      EXPECT_TRUE(std::is_sorted(all.rbegin(), all.rend()));
    }
  }
}

TEST(Continuous1F1B, ThreeStagesFourMinibatches) {
  EXPECT_EQ(drawn(continuous_1f1b(3, 3, 0, 4)), (std::vector<std::string>{
                                                    "F0 F1 F2 B0 F3 B1 B2 B3",
                                                    "F0 F1 B0 F2 B1 F3 B2 B3",
                                                    "F0 B0 F1 B1 F2 B2 F3 B3",
                                                }));
}

TEST(Continuous1F1B, OneInFlightIsSequential) {
  EXPECT_EQ(drawn(continuous_1f1b(2, 1, 0, 2)), (std::vector<std::string>{
                                                    "F0 B0 F1 B1",
                                                    "F0 B0 F1 B1",
                                                }));
}

TEST(Continuous1F1B, FewerMinibatchesThanInFlight) {
  EXPECT_EQ(drawn(continuous_1f1b(2, 4, 0, 2)), (std::vector<std::string>{
                                                    "F0 F1 B0 B1",
                                                    "F0 B0 F1 B1",
                                                }));
}

TEST(Continuous1F1B, StartsAnywhere) {
  EXPECT_EQ(drawn(continuous_1f1b(2, 2, 6, 9)), (std::vector<std::string>{
                                                    "F6 F7 B6 F8 B7 B8",
                                                    "F6 B6 F7 B7 F8 B8",
                                                }));
}

// Waves of two: {0 1} {2 3} {4}. The gate of wave 1 stands before F3; wave 2 is never completed, so
// that it has no gate, but what it did is pushed.
TEST(LowerWsp, ThreeStages) {
  const Schedule lowered = lower(continuous_1f1b(3, 2, 0, 5), {StageSync::waves, 2, 0, 5});
  EXPECT_EQ(
      drawn(lowered),
      (std::vector<std::string>{
          "F0 S0 F1 S1 V0 B0 U0 F2 S2 V1 B1 U1 P1 L3 F3 S3 V2 B2 U2 F4 S4 V3 B3 U3 P3 V4 B4 U4 P4",

          "V0 F0 S0 V1 F1 S1 V0 B0 S0 U0 V2 F2 S2 V1 B1 S1 U1 P1 V3 L3 F3 S3 V2 B2 S2 U2 "
          "V4 F4 S4 V3 B3 S3 U3 P3 V4 B4 S4 U4 P4",

          "V0 F0 B0 S0 U0 V1 F1 B1 S1 U1 P1 V2 F2 B2 S2 U2 V3 L3 F3 B3 S3 U3 P3 V4 F4 B4 S4 U4 P4",
      }));
  validate(lowered, 2);
}

TEST(LowerWsp, WavesOfOneAreBulkSynchronous) {
  EXPECT_EQ(drawn(lower(continuous_1f1b(1, 1, 0, 3), {StageSync::waves, 1, 0, 3})),
            (std::vector<std::string>{"F0 B0 U0 P0 L1 F1 B1 U1 P1 L2 F2 B2 U2 P2"}));
}

TEST(LowerWsp, TheFirstWaveOfAResumedRunHasNoGate) {
  EXPECT_EQ(drawn(lower(continuous_1f1b(1, 2, 4, 8), {StageSync::waves, 2, 4, 8})),
            (std::vector<std::string>{"F4 B4 U4 F5 B5 U5 P5 F6 B6 U6 L7 F7 B7 U7 P7"}));
}

TEST(ParseActions, PayloadsFollowFromThePlace) {
  const StageActions actions = parse_actions("V0 F0 S0 V1 L1 F1 S1 V0 B0 S0 U0");
  std::vector<bool> forward;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind == ActionKind::send || actions[i].kind == ActionKind::receive) {
      forward.push_back(actions[i].payload == Payload::activations);
    }
  }
  EXPECT_EQ(forward, (std::vector<bool>{true, true, true, true, false, false}));
}

TEST(Validate, PassesWhatIsGenerated) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int in_flight = 1; in_flight <= 9; ++in_flight) {
      for (const int waves : {1, 2, 3}) {
        const Minibatch first = 2 * in_flight;
        const Minibatch end = first + waves * in_flight + (waves == 2 ? 1 : 0);
        const Schedule schedule = continuous_1f1b(stages, in_flight, first, end);
        EXPECT_NO_THROW(validate(schedule, in_flight));
        EXPECT_NO_THROW(
            validate(lower(schedule, {StageSync::waves, in_flight, first, end}), in_flight));
      }
    }
  }
}

// Of rounds, partial ones included; and what waves of another length would have.
TEST(Validate, PassesRoundsOfWaves) {
  for (int stages = 1; stages <= 3; ++stages) {
    for (int in_flight = 1; in_flight <= 4; ++in_flight) {
      for (int round = 2; round <= 3; ++round) {
        const Minibatch end = 2 * in_flight * round + in_flight;
        const Lowering how{
            .sync = StageSync::waves, .in_flight = in_flight, .end = end, .round = round};
        const Schedule lowered = lower(continuous_1f1b(stages, in_flight, 0, end), how);
        ScheduleForm form{in_flight, BackwardForm::whole, StageSync::waves, round};
        EXPECT_NO_THROW(validate(lowered, form));
        form.round = 1;
        EXPECT_THROW(validate(lowered, form), UserError);
      }
    }
  }
}

TEST(Validate, MarksTheWrongCell) {
  const std::string error = user_error([] { validate(read({"F0 B1 F1 B0", "F0 B0 F1 B1"}), 2); });
  EXPECT_THAT(error, HasSubstr("stage 0, action 1 (B1): its forward does not come before it"));
  EXPECT_THAT(error, HasSubstr("  stage 0: F0 >B1< F1  B0\n"
                               "  stage 1: F0  B0  F1  B1"));
}

TEST(Validate, FindsDeadlocks) {  // each waits for what the other does later
  const std::string error = user_error([] { validate(read({"F0 B0 F1 B1", "F0 F1 B0 B1"}), 2); });
  EXPECT_THAT(error, HasSubstr("deadlock"));
  EXPECT_THAT(error, HasSubstr("  stage 0: F0 >B0< F1  B1\n"
                               "  stage 1: F0 >F1< B0  B1"));
}

TEST(Validate, FindsADeadlockAtTheGate) {  // the wave that the pull waits for is pushed after it
  const std::string error = user_error([] { validate(read({"F0 B0 U0 L1 F1 B1 U1 P1"}), 2); });
  EXPECT_EQ(error, "");  // a pull in the first wave waits for nobody
  EXPECT_THAT(user_error([] { validate(read({"F0 B0 U0 L1 P0 F1 B1 U1 P1"}), 1); }),
              HasSubstr("deadlock"));
}

struct Fault {
  std::vector<std::string> stages;
  int in_flight;
  std::string what;
};

TEST(Validate, NamesEveryKindOfFault) {
  const std::vector<Fault> faults{
      {{"F0 F0 B0"}, 1, "(F0): this forward is done twice"},
      {{"F0 B0 B0"}, 1, "(B0): this backward is done twice"},
      {{"F0 F1 B0"}, 2, "(F1): this forward has no backward"},
      {{"F0 F1 F2 B0 B1 B2"}, 2, "(F2): more than in_flight = 2"},
      {{"F0 U0 B0"}, 1, "(U0): its backward"},
      {{"F0 B0 P0 U0"}, 1, "(P0): its update"},
      {{"F0 L0 B0"}, 1, "(L0): it must come before"},
      {{"F0 S0 V0 B0", "F0 B0 S0"}, 1, "(F0): no receive brings its activations"},
      {{"F0 S0 B0", "V0 F0 B0 S0"}, 1, "(B0): no receive brings its gradients"},
      {{"F0 V0 B0", "V0 F0 B0 S0"}, 1, "(F0): no send passes its activations on"},
      {{"F0 S0 V0 B0", "V0 F0 B0"}, 1, "(B0): no send passes its gradients back"},
      {{"V0 F0 S0 V0 B0", "V0 F0 B0 S0"}, 1, "(V0): no stage on that side sends"},
      {{"F0 S0 V0 B0 S0", "V0 F0 B0 S0"}, 1, "(S0): no stage on that side receives"},
      {{"F0 S0 S0 V0 B0", "V0 F0 B0 S0"}, 1, "(S0): this message is sent twice"},
      {{"F0 S0 V0 V0 B0", "V0 F0 B0 S0"}, 1, "(V0): this message is received twice"},
      {{"F0 S0 F1 S1 V0 B0 V1 B1", "V1 F1 V0 F0 B0 S0 B1 S1"},
       2,
       "(V1): stage 0 sends S0 at this point"},
  };
  for (const Fault& fault : faults) {
    EXPECT_THAT(user_error([&] { validate(read(fault.stages), fault.in_flight); }),
                HasSubstr(fault.what));
  }
}

}  // namespace schedule_test
}  // namespace hetpipe
