// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/rank_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "runtime/transport/threads.h"

namespace hetpipe {
namespace rank_service_test {

struct Question {
  static constexpr auto kKind = static_cast<std::int32_t>(PipelineKind::end);
  Wave wave = 0;
};
struct Answer {
  static constexpr auto kKind = Question::kKind + 1;
  Label label = 0;
  std::string why{};
  static auto fields(auto& m) { return std::tie(m.label, m.why); }
};

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
  RankService other(*transports[0], 5);
  std::vector<Wave> questions;
  std::vector<Label> answers;
  int polls = 0;
  service.on<Question>([&](Rank from, const Question& question) {
    EXPECT_EQ(from, Rank{0});
    questions.push_back(question.wave);
  });
  service.on<Answer>([&](Rank, const Answer& answer) {
    EXPECT_EQ(answer.why, "because");
    answers.push_back(answer.label);
  });
  service.also_poll([&] { ++polls; });
  for (Wave wave = 1; wave < 4; ++wave) {
    other.send(Rank{1}, Question{wave});
  }
  other.send(Rank{1}, Answer{9, "because"});
  transports[0]->progress();
  service.wait([&] { return !answers.empty(); }, [] { return std::string("the answer"); });
  EXPECT_EQ(questions, (std::vector<Wave>{1, 2, 3}));
  EXPECT_EQ(answers, (std::vector<Label>{9}));
  EXPECT_GT(polls, 0);
}

TEST(RankServiceDeathTest, RefusesUnexpectedMessagesAndSecondHandlers) {
  const auto transports = make_threads_transports(1);
  RankService service(*transports[0], 5);
  service.on<Answer>([](Rank, const Answer&) {});
  EXPECT_DEATH(service.on<Answer>([](Rank, const Answer&) {}), "the same control message");
  service.send(Rank{0}, Question{});
  EXPECT_DEATH(service.wait([] { return false; }, [] { return std::string("nothing"); }),
               "no role of this rank expects");
}

}  // namespace rank_service_test
}  // namespace hetpipe
