// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/rank_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "runtime/transport/threads.h"

namespace hetpipe {
namespace rank_service_test {

constexpr auto kCode = [](MessageKind kind) { return static_cast<std::int32_t>(kind); };

TEST(RankService, AWaitInVainNamesWhatItWaitedFor) {
  const auto transports = make_threads_transports(1);
  RankService service(*transports[0], 0.05);
  const std::int64_t start = now_ns();
  try {
    service.wait([] { return false; }, [] { return std::string("the gate of wave 7"); });
    FAIL() << "waited for what never comes";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the gate of wave 7"));
  }
  EXPECT_GE(seconds_between(start, now_ns()), 0.05);

  std::vector<std::byte> memory(4);
  const Operation operation = transports[0]->receive(Rank{0}, Channel::pull, memory);
  try {
    service.wait(operation, [] { return std::string("snapshot 3 from server shard 1"); });
    FAIL() << "waited for what never comes";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("snapshot 3 from server shard 1"));
  }
}

TEST(RankService, HandsControlMessagesToWhomTheyConcern) {
  const auto transports = make_threads_transports(2);
  RankService service(*transports[1], 5);
  std::vector<Wave> gates;
  std::vector<Label> grants;
  int polls = 0;
  service.on(MessageKind::gate_request,
             [&](const ControlMessage& m) { gates.push_back(m.header.minibatch); });
  service.on(MessageKind::gate_grant,
             [&](const ControlMessage& m) { grants.push_back(m.header.label); });
  service.also_poll([&] { ++polls; });
  for (Wave wave = 1; wave < 4; ++wave) {
    transports[0]->send_control(Rank{1},
                                {.kind = kCode(MessageKind::gate_request), .minibatch = wave});
  }
  transports[0]->send_control(Rank{1}, {.kind = kCode(MessageKind::gate_grant), .label = 9});
  transports[0]->progress();
  service.wait([&] { return !grants.empty(); }, [] { return std::string("the grant"); });
  EXPECT_EQ(gates, (std::vector<Wave>{1, 2, 3}));
  EXPECT_EQ(grants, (std::vector<Label>{9}));
  EXPECT_GT(polls, 0);
}

TEST(RankServiceDeathTest, RefusesUnexpectedMessagesAndSecondHandlers) {
  const auto transports = make_threads_transports(1);
  RankService service(*transports[0], 5);
  service.on(MessageKind::gate_grant, [](const ControlMessage&) {});
  EXPECT_DEATH(service.on(MessageKind::gate_grant, [](const ControlMessage&) {}),
               "the same control message");
  transports[0]->send_control(Rank{0}, {.kind = kCode(MessageKind::run_over)});
  EXPECT_DEATH(service.wait([] { return false; }, [] { return std::string("nothing"); }),
               "no role of this rank expects");
}

}  // namespace rank_service_test
}  // namespace hetpipe
