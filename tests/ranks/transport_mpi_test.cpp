// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "device_scenarios.h"
#include "mpi_main.h"
#include "runtime/transport/wait.h"
#include "tests/main/patience.h"
#include "transport_scenarios.h"

namespace hetpipe {
namespace transport_mpi_test {

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
  const auto transport = mpi_session().make_transport(
      {.piece_bytes = kTestPieceBytes, .exchange_seconds = test::patience(10)});
  GetParam().play(*transport, clock_in_file);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, MpiTransportTest, testing::ValuesIn(transport_scenarios()),
                         [](const testing::TestParamInfo<Scenario>& named) {
                           return std::string(named.param.name);
                         });

INSTANTIATE_TEST_SUITE_P(Devices, MpiTransportTest, testing::ValuesIn(device_scenarios()),
                         [](const testing::TestParamInfo<Scenario>& named) {
                           return std::string(named.param.name);
                         });

INSTANTIATE_TEST_SUITE_P(Paths, MpiTransportTest, testing::ValuesIn(path_scenarios()),
                         [](const testing::TestParamInfo<Scenario>& named) {
                           return std::string(named.param.name);
                         });

// Over one communicator, on which nothing may be left: one transport for those that leave nothing.
TEST(MpiTransport, RanksThatMeetThroughTheirLauncher) {
  const auto transport = mpi_session().make_transport({.piece_bytes = kTestPieceBytes,
                                                       .exchange_seconds = test::patience(10),
                                                       .meet_by = MeetBy::launcher});
  int played = 0;
  for (const Scenario& scenario : transport_scenarios()) {
    const std::string name = scenario.name;
    if (name != "ManyMessages" && name != "ControlFromAnyone" && name != "Exchange" &&
        name != "RandomTraffic") {
      continue;
    }
    SCOPED_TRACE(name);
    scenario.play(*transport, clock_in_file);
    ++played;
  }
  EXPECT_EQ(played, 4);
}

// A payload past 2^31 bytes that is never in memory as a whole: every piece lies in the same place,
// and its first word is its number.
struct OnePlace : PayloadPieces {
  OnePlace(std::uint64_t bytes, bool sends) : memory(bytes / 4), sends_(sends) {}
  std::byte* next(std::uint64_t offset, std::uint64_t) override {
    if (taken) return nullptr;
    taken = true;
    if (sends_) memory[0] = static_cast<std::uint32_t>(offset >> 20);
    return reinterpret_cast<std::byte*>(memory.data());
  }
  void finished(std::uint64_t offset, std::uint64_t bytes) override {
    taken = false;
    if (!sends_ && memory[0] != static_cast<std::uint32_t>(offset >> 20)) ++wrong;
    over = offset + bytes;
  }
  std::vector<std::uint32_t> memory;
  bool taken = false;
  int wrong = 0;
  std::uint64_t over = 0;

 private:
  bool sends_;
};

TEST(MpiTransport, LargeMessageInPieces) {
  if (mpi_session().ranks() != 2) GTEST_SKIP() << "needs 2 ranks";
  const auto transport = mpi_session().make_transport();
  constexpr std::uint64_t kSize = (std::uint64_t{1} << 31) + 4096, kLargePiece = 1 << 20;
  const bool sends = transport->rank() == Rank{0};
  const Rank peer{sends ? 1 : 0};
  transport->set_piece_bytes(peer, kLargePiece);
  const auto pieces = std::make_shared<OnePlace>(kLargePiece, sends);
  const Operation operation = sends ? transport->send(peer, Channel::push, {}, kSize, pieces)
                                    : transport->receive(peer, Channel::push, kSize, pieces);
  wait_until([&] { return operation.done(); }, [&] { transport->progress(); }, test::patience(30),
             [] { return std::string("the large message"); });
  EXPECT_EQ(pieces->over, kSize);
  EXPECT_EQ(pieces->wrong, 0);
  transport->exchange({});
}

TEST(MpiSession, KnowsItsLibrary) {
  EXPECT_THAT(mpi_session().library(), testing::MatchesRegex(".*[0-9]+\\.[0-9]+.*"));
  EXPECT_THAT(mpi_session().library(), testing::Not(testing::HasSubstr(",")));
}

std::uint64_t free_memory() {  // bytes
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoull(line.substr(13)) * 1024;
  }
  return 0;
}

// Past 2^31 bytes in one message, in the pieces that users get: once into a fifth piece, once
// exactly to the border of the fourth.
TEST(MpiTransport, LargeMessage) {
  if (std::getenv("HETPIPE_TEST_LARGE") == nullptr) {
    GTEST_SKIP() << "runs as a test of its own, transport_large_message: it needs much memory";
  }
  if (mpi_session().ranks() < 2) GTEST_SKIP() << "needs 2 ranks";
  const auto transport = mpi_session().make_transport();
  const std::uint64_t mine = free_memory();
  std::uint64_t least = mine;
  for (const auto& bytes : transport->exchange(std::as_bytes(std::span(&mine, 1)))) {
    std::uint64_t one = 0;
    std::memcpy(&one, bytes.data(), sizeof one);
    least = std::min(least, one);
  }
  if (least < std::uint64_t{12} << 30) {
    GTEST_SKIP() << "needs 12 GiB of free memory: there are " << (least >> 20) << " MiB";
  }
  constexpr std::size_t kBorder = std::size_t{1} << 29;  // words in four pieces
  constexpr std::size_t kMost = kBorder + 77;
  const auto word = [](std::size_t i) { return static_cast<std::uint32_t>(i * 2654435761u); };
  const bool sends = transport->rank() == Rank{0};
  std::vector<std::uint32_t> words(transport->rank().value < 2 ? kMost : 0);
  for (std::size_t i = 0; sends && i < kMost; ++i) words[i] = word(i);
  for (const std::size_t count : {kMost, kBorder}) {
    const std::span<std::uint32_t> part = std::span(words).first(std::min(count, words.size()));
    Operation operation;
    if (sends) {
      operation = transport->send(Rank{1}, Channel::push, {}, std::as_bytes(part));
    } else if (transport->rank() == Rank{1}) {
      operation = transport->receive(Rank{0}, Channel::push, std::as_writable_bytes(part));
    }
    if (!operation) continue;
    wait_until([&] { return operation.done(); }, [&] { transport->progress(); }, test::patience(30),
               [] { return std::string("the large message"); });
    if (sends) continue;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) wrong += words[i] != word(i) ? 1 : 0;
    EXPECT_EQ(wrong, 0u);
    EXPECT_EQ(operation.header().bytes, count * 4);
    EXPECT_GE(operation.header().bytes, std::uint64_t{1} << 31);
    std::fill(words.begin(), words.end(), 0u);
  }
  transport->exchange({});
}

}  // namespace transport_mpi_test
}  // namespace hetpipe
