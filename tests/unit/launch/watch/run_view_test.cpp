// SPDX-License-Identifier: Apache-2.0
#include "launch/watch/run_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "base/wall_clock.h"

namespace hetpipe {
namespace run_view_test {

using ::testing::HasSubstr;
using ::testing::Not;

// 40 ranks in four virtual workers; rank 7 is slow, rank 12 waits least.
WatchedRun some_run() {
  RunStatus status;
  status.host = "gpu1";
  status.process = 4711;
  status.model = "lenet";
  status.system = "composed";
  status.dataset_size = 1000;
  status.samples = 250;
  status.end_samples = 2000;
  status.waves = 5;
  status.end_waves = 40;
  status.started = 100;
  status.time = 160;
  status.loss = 0.84114;
  status.samples_per_second = 1234.4;
  status.seconds_left = 125;
  status.checkpoint = "/a/run/checkpoints/checkpoint-00000004.h5";
  status.checkpoint_waves = 4;
  status.checkpoint_time = 150;
  status.virtual_workers.resize(4);
  for (int r = 0; r < 40; ++r) {
    status.ranks.push_back({.rank = r,
                            .device = format("node-with-a-long-name-%d:0", r),
                            .virtual_worker = r / 10,
                            .stage = r % 10,
                            .waves = 5,
                            .seconds = 10,
                            .waited = {.bubble = r == 12 ? 0.5 : 5.0}});
  }
  status.ranks[7].slowdown = 4.9;
  return {.directory = "/a/run", .status = status, .held = true, .last_line = "why it ended"};
}

std::string text_of(const WatchedRun& run, double silent) {
  return join(view_of(run, silent, 200, std::nullopt), "\n");
}

TEST(RunView, ShowsTheNumbersOfTheStatus) {
  const std::string text = text_of(some_run(), 1);
  EXPECT_THAT(text, HasSubstr("running on gpu1 (process 4711)\n"));
  EXPECT_THAT(text, HasSubstr("12 %  epoch 0.25 of 2  wave 5 of 40\n"));
  EXPECT_THAT(text, HasSubstr("1234 samples/s  since 1 m 00 s  left 2 m 05 s\n"));
  EXPECT_THAT(text, HasSubstr("loss        0.8411\n"));
  EXPECT_THAT(text, HasSubstr("after wave 4, 11.0 s ago: checkpoint-00000004.h5\n"));
  EXPECT_THAT(text, HasSubstr("rank 7 (virtual worker 0, stage 7 on node-with-a-long-name-7:0): "
                              "4.9x slower\n"));
}

TEST(RunView, FitsAnyTerminal) {
  for (const int width : {40, 80, 132}) {
    for (const int height : {1, 5, 23, 30, 200}) {
      WatchedRun run = some_run();
      run.directory = "/a/" + std::string(100, 'x') + "\x1b[31m\xc3\xa9";
      const std::vector<std::string> lines = view_of(run, 1, width, height);
      EXPECT_LE(static_cast<int>(lines.size()), height);
      for (const std::string& line : lines) {
        EXPECT_LE(static_cast<int>(line.size()), width + 1);  // one letter has two bytes
        EXPECT_EQ(line.find('\x1b'), std::string::npos);
      }
    }
  }
}

TEST(RunView, OfManyRanksShowsThoseThatTheOthersWaitFor) {
  const std::vector<std::string> lines = view_of(some_run(), 1, 80, 23);
  const std::string text = join(lines, "\n");
  EXPECT_EQ(lines.size(), 23u);
  EXPECT_THAT(text, HasSubstr("\n   7   0"));
  EXPECT_THAT(text, HasSubstr("\n  12   1"));
  EXPECT_THAT(text, Not(HasSubstr("\n  39   3")));
  EXPECT_THAT(lines.back(), HasSubstr("more ranks, which wait longer"));
  EXPECT_THAT(text_of(some_run(), 1), HasSubstr("\n  39   3"));
}

TEST(RunView, SaysHowTheRunIs) {
  WatchedRun run = some_run();
  EXPECT_THAT(text_of(run, 20), HasSubstr("silent for 20.0 s on gpu1"));
  run.status->state = kStopping;
  EXPECT_THAT(text_of(run, 1), HasSubstr("stopping after wave 40"));
  run.held = false;
  EXPECT_FALSE(run.is_gone(1));  // its host may keep the lock to itself
  EXPECT_TRUE(run.is_gone(20));
  EXPECT_THAT(text_of(run, 20), HasSubstr("its process is gone, 20.0 s after its last sign"));
  EXPECT_THAT(text_of(run, 20), HasSubstr("last words  why it ended\n"));
  run.status->state = kFailed;
  EXPECT_THAT(text_of(run, 1), HasSubstr("failed. Continue with --resume.\n"));
  run.status->state = kEnded;
  run.status->exit = "stopped";
  EXPECT_TRUE(run.says_it_is_over());
  EXPECT_THAT(text_of(run, 1), HasSubstr("stopped on request, with a checkpoint."));
  EXPECT_THAT(text_of(run, 1), Not(HasSubstr("last words")));
  run.status->exit = "finished";
  EXPECT_THAT(text_of(run, 1000), HasSubstr("ended: finished.\n"));
  run.status.reset();
  EXPECT_THAT(text_of(run, 0), HasSubstr("not running, and it left no status.json"));
  run.held = true;
  EXPECT_THAT(text_of(run, 0), HasSubstr("state       starting"));
}

// The machine that watches may have another time of day.
TEST(Silence, IsCountedByTheWatchersClock) {
  WatchedRun run = some_run();
  run.status->time = wall_seconds() + 1000;
  Silence silence;
  EXPECT_LT(silence.seconds_of(run), 900);
  EXPECT_GE(silence.seconds_of(run), 0);
  Silence other;
  run.status->time = wall_seconds() - 1000;
  EXPECT_GE(other.seconds_of(run), 1000);
  run.status->time += 1;  // a sign of life
  EXPECT_LT(other.seconds_of(run), 900);
}

}  // namespace run_view_test
}  // namespace hetpipe
