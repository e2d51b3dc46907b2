// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "invented.h"
#include "kernels/devices.h"
#include "runtime/transport/threads.h"
#include "tests/main/patience.h"
#include "tests/unit/base/travels.h"
#include "tests/unit/launch/lossy.h"

namespace hetpipe {
namespace probe_measure_test {

using test::Lossy;
using test::patience;
using test::rank_on;
using test::with_longer_deadlines;
using testing::HasSubstr;

// All ranks of a pool of CPUs as threads; rank 0's numbers. Messages of `from` bytes from rank
// `loser` to rank `other` are lost.
Probed measured(const std::vector<ProbeFacts>& facts, const MeasureSetup& setup, int loser = -1,
                int other = -1, std::size_t from = 0) {
  auto transports = make_threads_transports(static_cast<int>(facts.size()));
  if (loser >= 0) {
    auto& transport = transports[static_cast<std::size_t>(loser)];
    transport = std::make_unique<Lossy>(std::move(transport), other, from);
  }
  std::vector<std::unique_ptr<PoolMeasurement>> parts(facts.size());
  for (std::size_t r = 0; r < facts.size(); ++r) {
    parts[r] = std::make_unique<PoolMeasurement>(decide_pool(facts, ProbeFor::processors),
                                                 *transports[r], setup);
  }
  std::vector<std::thread> others;
  for (std::size_t r = 1; r < facts.size(); ++r) {
    others.emplace_back([&, r] { EXPECT_EQ(parts[r]->take_part(), 7); });
  }
  Probed probed = parts[0]->measure();
  dismiss(*transports[0], 7);
  for (std::thread& other_rank : others) other_rank.join();
  return probed;
}

TEST(ProbeFacts, TravelAsTheyAre) {
  test::expect_all_travels(test::filled<ProbeFacts>());
  test::expect_all_travels(test::filled<SeenCard>());
  test::expect_all_travels(test::filled<GpuInfo>());
  test::expect_all_travels(test::filled<NvLinks>());
}

TEST(PoolMeasurement, ItsNumbersTravelAsTheyAre) {
  test::expect_all_travels(test::filled<DeviceNumbers>());
  test::expect_all_travels(test::filled<CopyRates>());
  test::expect_all_travels(test::filled<LinkNumbers>());
}

TEST(PoolMeasurement, OneRankAlone) {
  const Probed probed = measured({rank_on("n0")}, {.seconds = 0.5, .link_deadline = patience(10)});
  EXPECT_TRUE(probed.complete());
  ASSERT_EQ(probed.devices.size(), 1u);
  EXPECT_GT(probed.devices[0].fp32_flops, 1e8);
  EXPECT_GT(probed.devices[0].copies.inside, 1e7);
  EXPECT_GT(probed.devices[0].copies.to_device, 1e7);
  ASSERT_EQ(probed.links.size(), 1u);
  EXPECT_EQ(probed.links[0].test, (LinkTest{0, 0}));
  EXPECT_GT(probed.links[0].numbers->there, 1e7);
}

TEST(PoolMeasurement, EachDistinctLinkOnce) {
  const std::vector<ProbeFacts> facts{rank_on("n0"), rank_on("n0"), rank_on("n1"), rank_on("n2")};
  const Probed probed = measured(facts, {.seconds = 0.5, .link_deadline = patience(10)});
  EXPECT_TRUE(probed.complete());
  ASSERT_EQ(probed.links.size(), 4u);  // n0-n0, n0-n1, n0-n2, n1-n2
  for (const LinkResult& link : probed.links) {
    EXPECT_GT(link.numbers->there, 1e6);
    EXPECT_GT(link.numbers->back, 1e6);
    EXPECT_GT(link.numbers->latency, 0);
    EXPECT_LT(link.numbers->latency, 1);
  }
}

TEST(PoolMeasurement, ALinkThatLosesMessagesIsNamedAndTheOthersAreMeasured) {
  const std::vector<ProbeFacts> facts{rank_on("n0"), rank_on("n1"), rank_on("n2")};
  // Small messages pass, large ones do not; in one direction.
  for (const auto& [loser, other] : {std::pair(1, 2), std::pair(2, 1), std::pair(0, 1)}) {
    const auto is_lost = [loser = loser, other = other](const LinkTest& test) {
      return std::minmax(test.from, test.to) == std::minmax(loser, other);
    };
    const Probed probed = with_longer_deadlines(
        1,
        [&, loser = loser, other = other](double deadline) {
          return measured(facts, {.seconds = 0.5, .link_deadline = deadline}, loser, other,
                          100'000);
        },
        [&](const Probed& all) {
          return std::all_of(all.links.begin(), all.links.end(), [&](const LinkResult& link) {
            return link.numbers.has_value() || is_lost(link.test);
          });
        });
    EXPECT_FALSE(probed.complete());
    ASSERT_EQ(probed.links.size(), 4u);  // and a rank with itself, for no node has two
    for (const LinkResult& link : probed.links) {
      const bool lost = is_lost(link.test);
      EXPECT_EQ(link.numbers.has_value(), !lost) << link.test.from << " " << link.test.to;
      if (lost) {
        EXPECT_THAT(link.failure, HasSubstr("no answer within"));
      }
    }
  }
}

// What a device cannot do is its rank's answer, and no reason to leave the others out.
TEST(Conduct, AFailureIsAnAnswerAndSilenceIsNone) {
  const auto played = [](double deadline) {
    auto transports = make_threads_transports(3);
    const double long_enough = patience(5);
    const std::vector<ProbeStep> steps{
        {{1}, long_enough}, {{0, 2}, long_enough}, {{1, 2}, deadline}};
    std::atomic<bool> over = false;
    const auto act = [&over](int rank, int step) -> std::string {
      if (step == 0) throw SystemError("the card is on fire");
      // Longer than anybody waits.
      if (step == 2 && rank == 1) test::comes_true([&] { return over.load(); }, 60);
      return "rank " + std::to_string(rank);
    };
    std::vector<std::thread> others;
    for (int r = 1; r < 3; ++r) {
      others.emplace_back([&, r] {
        follow(*transports[static_cast<std::size_t>(r)], steps,
               [&](int step) { return act(r, step); });
      });
    }
    auto replies = conduct(*transports[0], steps, [&](int step) { return act(0, step); });
    over = true;
    dismiss(*transports[0], 0);
    for (std::thread& other : others) other.join();
    return replies;
  };
  const auto replies = with_longer_deadlines(
      0.2, played, [](const auto& all) { return all[2][1].text.has_value(); });
  EXPECT_EQ(replies[0][0].failure, "the card is on fire");
  EXPECT_EQ(replies[1][0].text, "rank 0");
  EXPECT_EQ(replies[1][1].text, "rank 2");
  EXPECT_FALSE(replies[2][0].text.has_value());
  EXPECT_EQ(replies[2][1].text, "rank 2");
}

}  // namespace probe_measure_test
}  // namespace hetpipe
