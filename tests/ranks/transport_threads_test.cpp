// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <mutex>
#include <string>
#include <thread>

#include "base/error.h"
#include "device_scenarios.h"
#include "runtime/transport/wait.h"
#include "tests/main/patience.h"
#include "transport_scenarios.h"

namespace hetpipe {
namespace transport_threads_test {

// Runs every rank in a thread of its own; a rank that throws fails the test and ends the others.
void as_threads(int ranks, const std::function<void(Transport&)>& play) {
  const auto transports = make_threads_transports(ranks);
  std::vector<std::thread> threads;
  for (const auto& transport : transports) {
    threads.emplace_back([&play, rank = transport.get()] {
      try {
        play(*rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank->rank().value << ": " << error.what();
        rank->abort(static_cast<int>(ExitCode::system));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

struct Case {
  Scenario scenario;
  int ranks;
};

std::vector<Case> cases(const std::vector<Scenario>& scenarios, int most_ranks = 4) {
  std::vector<Case> all;
  for (const Scenario& scenario : scenarios) {
    for (int ranks = scenario.min_ranks; ranks <= most_ranks; ++ranks)
      all.push_back({scenario, ranks});
  }
  return all;
}

class ThreadsTransportTest : public testing::TestWithParam<Case> {};

TEST_P(ThreadsTransportTest, Plays) {
  std::mutex mutex;
  std::shared_ptr<LinkClock> clock;
  const MakeClock make_clock = [&](Transport&, int resources) {
    const std::lock_guard lock(mutex);
    if (clock == nullptr) clock = LinkClock::in_process(resources);
    return clock;
  };
  as_threads(GetParam().ranks,
             [&](Transport& transport) { GetParam().scenario.play(transport, make_clock); });
}

std::string name_of(const testing::TestParamInfo<Case>& named) {
  return std::string(named.param.scenario.name) + "_" + std::to_string(named.param.ranks);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, ThreadsTransportTest,
                         testing::ValuesIn(cases(transport_scenarios())), name_of);
INSTANTIATE_TEST_SUITE_P(Devices, ThreadsTransportTest,
                         testing::ValuesIn(cases(device_scenarios())), name_of);
INSTANTIATE_TEST_SUITE_P(Paths, ThreadsTransportTest, testing::ValuesIn(cases(path_scenarios(), 3)),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Nccl, ThreadsTransportTest, testing::ValuesIn(cases(nccl_scenarios(), 3)),
                         name_of);

TEST(ThreadsTransport, AbortEndsTheOthersAndNamesTheFirst) {
  as_threads(4, [](Transport& transport) {
    if (transport.rank() == Rank{2}) return transport.abort(4);
    std::string error;
    try {
      if (transport.rank() == Rank{0}) transport.exchange({});  // waits as well
      wait_until([] { return false; }, [&] { transport.progress(); }, test::patience(10),
                 [] { return std::string("the abort"); });
    } catch (const SystemError& caught) {
      error = caught.what();
    }
    EXPECT_EQ(error, "rank 2 failed");
    transport.abort(3);  // too late to be the first
  });
}

}  // namespace transport_threads_test
}  // namespace hetpipe
