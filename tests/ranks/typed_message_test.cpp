// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/typed_message.h"

#include <gtest/gtest.h>

#include "runtime/transport/messages.h"
#include "runtime/transport/threads.h"

namespace hetpipe {
namespace typed_message_test {

enum class Kind : std::int32_t { first = first_after<TransportKind>, second, third, end };

struct Piece {
  static constexpr auto kKind = Kind::first;
  std::int64_t number = 0;
  Rank rank;
  bool operator==(const Piece&) const = default;
};
struct Question {
  static constexpr auto kKind = Kind::second;
};
struct Answer {
  static constexpr auto kKind = Kind::third;
  int code = 0;
  std::string text{};
  std::vector<double> values{};
  static auto fields(auto& m) { return std::tie(m.code, m.text, m.values); }
};
struct SameKind {
  static constexpr auto kKind = Kind::third;
};

static_assert(kinds_differ<PathWord, PathTrial, Piece, Question, Answer>());
static_assert(!kinds_differ<Piece, Answer, SameKind>());
static_assert(kind_of<Piece> > kind_of<PathTrial>);

template <class M>
ControlMessage sent(const M& message) {
  const auto transports = make_threads_transports(1);
  send_control(*transports[0], Rank{0}, message);
  transports[0]->progress();
  return transports[0]->try_receive_control().value();
}

TEST(TypedMessage, StandsBeforeAPayload) {
  const Piece piece{.number = std::int64_t{1} << 40, .rank = Rank{7}};
  EXPECT_EQ(read_as<Piece>(header_of(piece)), piece);
}

TEST(TypedMessage, TravelsWhole) {
  EXPECT_TRUE(is_a<Question>(sent(Question{})));
  EXPECT_FALSE(is_a<Answer>(sent(Question{})));
  const auto answer = read_as<Answer>(sent(Answer{-3, "why", {0.5, -1e300}}));
  EXPECT_EQ(answer.code, -3);
  EXPECT_EQ(answer.text, "why");
  EXPECT_EQ(answer.values, (std::vector<double>{0.5, -1e300}));
  const auto empty = read_as<Answer>(sent(Answer{}));
  EXPECT_TRUE(empty.text.empty() && empty.values.empty());
}

TEST(TypedMessageDeathTest, IsNotReadAsAnother) {
  EXPECT_DEATH(read_as<Question>(header_of(Piece{})), "another kind");
  EXPECT_DEATH(read_as<Piece>(sent(Answer{})), "another kind");
  ControlMessage message = sent(Answer{1, "long", {}});
  message.payload.push_back({});
  EXPECT_DEATH(read_as<Answer>(message), "longer than its kind");
  message.payload.resize(8);
  EXPECT_DEATH(read_as<Answer>(message), "shorter than its kind");
  message = sent(Answer{});
  message.payload[sizeof(int)] = std::byte{1};  // says that its text has one letter
  message.payload.resize(sizeof(int) + sizeof(std::size_t));
  EXPECT_DEATH(read_as<Answer>(message), "shorter than it says");
}

}  // namespace typed_message_test
}  // namespace hetpipe
