// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "mpi_main.h"
#include "runtime/transport/wait.h"
#include "transport_scenarios.h"

namespace hetpipe {
namespace {

// Rank 0 makes the file, then the others open it.
std::shared_ptr<LinkClock> clock_in_file(Transport& transport, int resources) {
  std::string path;
  std::shared_ptr<LinkClock> clock;
  if (transport.rank() == Rank{0}) {
    path = (std::filesystem::temp_directory_path() /
            ("hetpipe-transport-test-" + std::to_string(::getpid())))
               .string();
    clock = LinkClock::in_file(path, resources, true);
  }
  const auto paths = transport.exchange(std::as_bytes(std::span(path)));
  if (clock == nullptr) {
    path.assign(reinterpret_cast<const char*>(paths[0].data()), paths[0].size());
    clock = LinkClock::in_file(path, resources, false);
  }
  transport.exchange({});  // all have it open
  return clock;
}

class MpiTransportTest : public testing::TestWithParam<Scenario> {};

TEST_P(MpiTransportTest, Plays) {
  if (mpi_session().ranks() < GetParam().min_ranks) {
    GTEST_SKIP() << "needs " << GetParam().min_ranks << " ranks";
  }
  const auto transport =
      mpi_session().make_transport({.piece_bytes = kTestPieceBytes, .exchange_seconds = 30});
  GetParam().play(*transport, clock_in_file);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, MpiTransportTest, testing::ValuesIn(transport_scenarios()),
                         [](const testing::TestParamInfo<Scenario>& named) {
                           return std::string(named.param.name);
                         });

TEST(MpiSession, KnowsItsLibrary) {
  EXPECT_THAT(mpi_session().library(), testing::MatchesRegex(".*[0-9]+\\.[0-9]+.*"));
  EXPECT_THAT(mpi_session().library(), testing::Not(testing::HasSubstr(",")));
}

// Past 2^31 bytes in one message, in the pieces that users get.
TEST(MpiTransport, LargeMessage) {
  if (std::getenv("HETPIPE_TEST_LARGE") == nullptr) {
    GTEST_SKIP() << "needs 5 GB of memory: set HETPIPE_TEST_LARGE=1 to run it";
  }
  if (mpi_session().ranks() < 2) GTEST_SKIP() << "needs 2 ranks";
  const auto transport = mpi_session().make_transport();
  constexpr std::size_t kWords = (std::size_t{1} << 29) + 77;
  const auto word = [](std::size_t i) { return static_cast<std::uint32_t>(i * 2654435761u); };
  std::vector<std::uint32_t> words(transport->rank().value < 2 ? kWords : 0);
  Operation operation;
  if (transport->rank() == Rank{0}) {
    for (std::size_t i = 0; i < kWords; ++i) words[i] = word(i);
    operation = transport->send(Rank{1}, Channel::push, {}, std::as_bytes(std::span(words)));
  } else if (transport->rank() == Rank{1}) {
    operation =
        transport->receive(Rank{0}, Channel::push, std::as_writable_bytes(std::span(words)));
  }
  if (operation) {
    wait_until([&] { return operation.done(); }, [&] { transport->progress(); }, 90,
               [] { return std::string("the large message"); });
  }
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); ++i) wrong += words[i] != word(i) ? 1 : 0;
  EXPECT_EQ(wrong, 0u);
  if (transport->rank() == Rank{1}) {
    EXPECT_EQ(operation.header().bytes, kWords * 4);
    EXPECT_GT(operation.header().bytes, std::uint64_t{1} << 31);
  }
  transport->exchange({});
}

}  // namespace
}  // namespace hetpipe
