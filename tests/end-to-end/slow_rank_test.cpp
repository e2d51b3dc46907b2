// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "base/text.h"
#include "runtime/training/roles.h"
#include "runtime/training/run.h"
#include "tests/end-to-end/said.h"
#include "tests/end-to-end/training.h"

// A rank that slows down in the middle of a run is named while it is slow, and when it has
// recovered.
namespace hetpipe {
namespace slow_rank_test {

using testing::HasSubstr;
using testing::Not;

// Of two devices that take 4 ms for a minibatch, one takes at least five times as long for a while:
// its thread sleeps whenever it asks whether the device is done.
TEST(SlowRank, IsNamedWithinTenWavesAndWhenItHasRecovered) {
  Training training{.model = "mlp", .samples = 16 * 2 * 150, .workers = {{8, {}}, {8, {}}}};
  training.device = "offload";  // does not compute in the rank's own thread
  training.in_flight = 2;
  training.optimizer.rate = 0.005f;
  training.hosted = true;  // no rank but these
  training.paces = {0.004, 0.004};
  const Bench bench(training);
  TrainJob job = bench.job_of();
  job.checkpoint_folder.clear();
  job.trace_folder.clear();
  const Roles roles =
      assign_roles(job.plan, std::vector<std::string>(2, "here"), Matching::plan_order);

  constexpr int kFrom = 20;  // waves
  Said said;
  std::atomic<std::thread::id> slow{};
  const auto disturb = [&]() -> std::optional<int> {
    if (said.waves() < kFrom) return std::nullopt;
    if (said.says("usual pace again")) return SIGUSR1;
    if (said.says("has become")) return std::nullopt;
    std::thread::id nobody{};
    const std::thread::id me = std::this_thread::get_id();
    if (slow.compare_exchange_strong(nobody, me) || nobody == me) {
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
    }
    return std::nullopt;
  };
  Log log(said.file(), said.file(), Log::Terminal::no);
  const RunEnd end = train_as_threads(
      job, roles, [&](Split, Parts) { return bench.data(); }, "here", log, disturb);
  EXPECT_EQ(end.code, ExitCode::stopped) << said.text();  // that is, it has recovered

  // The one whose passes took longest.
  const auto busy = [](const RankReport& rank) {
    return rank.forward_seconds + rank.backward_seconds;
  };
  const RankReport& slowest = *std::max_element(
      end.outcome.ranks.begin(), end.outcome.ranks.end(),
      [&](const RankReport& a, const RankReport& b) { return busy(a) < busy(b); });
  const int rank = slowest.virtual_worker;  // of one stage each
  const std::string name = format("rank %d (virtual worker %d, stage 0 on n%d:0", rank, rank, rank);
  int waves = 0, named = 0, recovered = 0, marked = 0;
  for (const std::string& line : split(said.text(), '\n')) {
    if (line.find("has become") != line.npos) {
      ++named;
      EXPECT_THAT(line, HasSubstr("warning: " + name));
      const double factor = std::stod(line.substr(line.find("has become") + 10));
      EXPECT_GE(factor, 3) << line;
      EXPECT_GE(waves, kFrom);
      EXPECT_LE(waves, kFrom + 10);
    } else if (line.find("usual pace again") != line.npos) {
      ++recovered;
      EXPECT_THAT(line, HasSubstr(name));
    } else if (line.starts_with("wave ")) {
      ++waves;
      const std::string mark = format("  slow: rank %d (", rank);
      const bool slow_now = named > recovered;
      marked += slow_now;
      if (slow_now) {
        EXPECT_THAT(line, HasSubstr(mark));
      } else {
        EXPECT_THAT(line, Not(HasSubstr("slow:")));
      }
    }
  }
  EXPECT_EQ(named, 1) << said.text();
  EXPECT_EQ(recovered, 1);
  EXPECT_GE(marked, 3);
}

}  // namespace slow_rank_test
}  // namespace hetpipe
