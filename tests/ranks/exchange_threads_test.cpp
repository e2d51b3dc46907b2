// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "base/error.h"
#include "exchange_scenario.h"
#include "kernels/devices.h"
#include "runtime/sync/gradient_exchange.h"
#include "runtime/transport/threads.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace exchange_threads_test {

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

TEST(GradientExchange, RandomGroupsAddUpAsASerialProgram) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const int ranks = 2 + static_cast<int>(seed % 4);
    as_threads(ranks, [seed](Transport& transport) { play_exchange(transport, seed); });
  }
}

// Two groups in opposite orders, on links that deliver late.
TEST(GradientExchange, OverEmulatedLinks) {
  const auto clock = LinkClock::in_process(2);
  as_threads(2, [&](Transport& transport) {
    LinkTable table{.ranks = 2, .resources = 2, .links = {}};
    table.links.resize(4);
    table.links[1] = EmulatedLink{.bandwidth = 1e9, .latency = 1e-3, .resources = {0}};
    table.links[2] = EmulatedLink{.bandwidth = 5e8, .latency = 1e-3, .resources = {1}};
    transport.emulate_links(table, clock);
    for (std::uint64_t seed = 100; seed < 103; ++seed) play_exchange(transport, seed);
  });
}

// Each float goes up once and comes down once per hop; as many pieces as are made of it.
TEST(GradientExchange, CountsWhatItSends) {
  const std::int64_t count = 100'000;
  const std::int64_t piece = exchange_piece(count, 3);
  ASSERT_EQ(piece, 4096);  // 400 kB / (8 * 3), in whole 8 KiB
  as_threads(3, [&](Transport& transport) {
    const auto device = make_device("reference", 1);
    const auto stream = device->make_stream();
    RankService service(transport, test::patience(10));
    const int place = transport.rank().value;
    DeviceTransport messages(transport, *device, *stream);
    GradientExchange exchange(
        {{.number = 0, .range = {0, count}, .group = {Rank{0}, Rank{1}, Rank{2}}, .place = place}},
        messages, service);
    std::vector<float> values(static_cast<std::size_t>(count), 1.0f);
    exchange.start(7, values.data());
    exchange.wait();
    EXPECT_EQ(values, std::vector<float>(values.size(), 3.0f));
    const int hops = place == 1 ? 2 : 1;
    EXPECT_EQ(exchange.messages_sent(), (count + piece - 1) / piece * hops);
    EXPECT_EQ(exchange.bytes_sent(), 4 * count * hops);
    service.poll();
    transport.exchange({});
  });
}

TEST(GradientExchange, NamesTheRankThatItWaitsFor) {
  const auto transports = make_threads_transports(2);
  const auto device = make_device("reference", 1);
  const auto stream = device->make_stream();
  RankService service(*transports[1], 0.05);
  DeviceTransport messages(*transports[1], *device, *stream);
  GradientExchange exchange(
      {{.number = 0, .range = {0, 3}, .group = {Rank{0}, Rank{1}}, .place = 1}}, messages, service);
  std::vector<float> values(3);
  exchange.start(12, values.data());
  try {
    exchange.wait();
    FAIL() << "nobody sent anything";
  } catch (const WaitFailed& failed) {
    EXPECT_THAT(failed.what(), testing::HasSubstr("minibatch 12"));
    EXPECT_THAT(failed.what(), testing::HasSubstr("from rank 0"));
    EXPECT_EQ(failed.culprit(), Rank{0});
  }
}

}  // namespace exchange_threads_test
}  // namespace hetpipe
