// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/pace.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/time.h"
#include "runtime/transport/threads.h"

// Bounds that hold on a busy machine, too: nothing ends early; what is late is late by what passed
// for sure.
namespace hetpipe {
namespace pace_test {

struct Rig {
  std::vector<std::unique_ptr<Transport>> transports = make_threads_transports(1);
  RankService service{*transports[0], 5};
  int polls = 0;
  std::int64_t before_ns = 0;
  std::unique_ptr<Pace> pace;

  Rig() {
    service.also_poll([this] { ++polls; });
    before_ns = now_ns();
    pace = std::make_unique<Pace>(service);
  }
  double elapsed() const { return seconds_between(before_ns, now_ns()); }
};

// Since when an action has been computed whose arithmetic takes no time, on whatever machine.
std::int64_t in_no_time() { return now_ns() + to_ns(3600); }

TEST(Pace, HoldsUntilTheModelledTimesHavePassed) {
  Rig rig;
  double busy = 0;
  int actions = 0;
  // A busy machine may be late with all of the first ones, and then nothing is waited for.
  for (; actions < 4 || (rig.polls == 0 && actions < 1000); ++actions) {
    busy += rig.pace->hold(in_no_time(), 0.005).seconds();
  }
  EXPECT_GE(rig.elapsed(), actions * 0.005);
  EXPECT_GT(rig.polls, 0) << "others must be served while a device is paced";
  EXPECT_EQ(rig.pace->actions(), actions);
  EXPECT_EQ(rig.pace->overruns(), 0);
  // The device has no gaps of its own: all that goes beyond the model is lateness.
  EXPECT_NEAR(busy, actions * 0.005 + rig.pace->late_seconds(), 1e-6);
}

TEST(Pace, AnActionStartsWhenItsInputIsThere) {
  Rig rig;
  rig.pace->input_at(now_ns() + 20'000'000);
  rig.pace->input_at(now_ns());  // an earlier one changes nothing
  rig.pace->hold(in_no_time(), 0.005);
  EXPECT_GE(rig.elapsed(), 0.025);
}

TEST(Pace, CountsArithmeticThatTookLongerThanItsModel) {
  Rig rig;
  const std::int64_t began_ns = now_ns() - to_ns(3);
  rig.pace->hold(began_ns, 0.01);
  EXPECT_EQ(rig.pace->overruns(), 1);
  EXPECT_GE(rig.pace->overrun_seconds(), 2.99);
  EXPECT_LE(rig.pace->overrun_seconds(), seconds_between(began_ns, now_ns()) - 0.01);
}

TEST(Pace, NotesHowFarAModelledEndWasMissed) {
  Rig rig;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));  // the machine was busy elsewhere
  const double busy = rig.pace->hold(in_no_time(), 0.01).seconds();
  EXPECT_EQ(rig.pace->overruns(), 0);
  EXPECT_GE(rig.pace->late_seconds(), 0.0199);
  EXPECT_GE(busy, 0.0299);
}

TEST(Pace, ShortActionsAreWaitedForTogether) {
  Rig rig;
  for (int action = 0; action < 3; ++action) rig.pace->advance(now_ns(), 0.005);
  EXPECT_EQ(rig.polls, 0) << "advancing does not wait";
  rig.pace->catch_up();
  EXPECT_GE(rig.elapsed(), 0.015);
}

TEST(Pace, DoesNotWaitWhereNothingIsEmulated) {
  Rig rig;
  EXPECT_GE(rig.pace->hold(now_ns() - 1'000'000'000, 0).seconds(), 1.0);  // the device's real time
  rig.pace->advance(now_ns(), 0);
  rig.pace->catch_up();
  EXPECT_EQ(rig.pace->actions(), 0);
  EXPECT_EQ(rig.pace->overruns(), 0);
  EXPECT_EQ(rig.polls, 0);
}

}  // namespace pace_test
}  // namespace hetpipe
