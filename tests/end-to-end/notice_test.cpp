// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "runtime/training/roles.h"
#include "runtime/training/run.h"
#include "tests/end-to-end/said.h"
#include "tests/end-to-end/training.h"

// What a run says of how long a stop on request takes.
namespace hetpipe {
namespace notice_test {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// Asked to stop after some waves, with so many seconds until it would be ended.
enum class ExactState { none, kept };
std::string stopped(double notice, const std::string& system, ExactState exact) {
  Training training{.model = "mlp", .samples = 16 * 2 * 100, .workers = {{8, {}}, {8, {}}}};
  training.system = system;
  training.in_flight = system == "hetpipe" ? 2 : 1;
  training.optimizer.rate = 0.005f;
  training.hosted = true;
  training.paces = {0.003, 0.003};
  const Bench bench(training);
  TrainJob job = bench.job_of();
  job.checkpoint_folder.clear();
  job.trace_folder.clear();
  job.notice_seconds = notice;
  job.exact_checkpoints = exact == ExactState::kept;
  const Roles roles =
      assign_roles(job.plan, std::vector<std::string>(2, "here"), Matching::plan_order);
  Said said;
  Log log(said.file(), said.file(), Log::Terminal::no);
  const auto stop = [&] { return said.waves() < 6 ? std::nullopt : std::optional(SIGUSR1); };
  const RunEnd end = train_as_threads(
      job, roles, [&](Split, Parts) { return bench.data(); }, "here", log, stop);
  EXPECT_EQ(end.code, ExitCode::stopped);
  return said.text();
}

TEST(Notice, IsTooShortForTheWaves) {
  for (const std::string system : {"hetpipe", "gpipe"}) {
    const std::string said = stopped(1e-6, system, ExactState::none);
    EXPECT_THAT(said,
                ContainsRegex("warning: a stop on request takes up to 2 waves of [0-9.]+ m?s, "
                              "and the notice \\(--notice\\) is 1 us"));
    if (system == "hetpipe") {
      EXPECT_THAT(said, HasSubstr(": it may come inside of a wave, and the resumed run start with "
                                  "empty pipelines. Ask for a notice of "));
      continue;
    }
    EXPECT_THAT(said, ContainsRegex("stopping after wave [0-9]+, then a checkpoint, in about "));
    if (said.find("in about 0 s") != said.npos) continue;  // the last wave was overdue
    EXPECT_THAT(said, ContainsRegex("warning: wave [0-9]+ is expected to end [0-9.]+ m?s after the "
                                    "request, .* none was written before"));
  }
}

TEST(Notice, MattersNotWhereARunContinuesInsideOfAWave) {
  EXPECT_THAT(stopped(1e-6, "hetpipe", ExactState::kept),
              Not(HasSubstr("a stop on request takes")));
}

TEST(Notice, Suffices) {
  for (const double notice : {0.0, 1e5}) {  // not known; a day
    const std::string said = stopped(notice, "hetpipe", ExactState::none);
    EXPECT_THAT(said, Not(HasSubstr("warning")));
    EXPECT_THAT(said, ContainsRegex("stopping after wave [0-9]+, then a checkpoint, in about "));
  }
}

}  // namespace notice_test
}  // namespace hetpipe
