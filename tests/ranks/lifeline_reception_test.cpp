// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/lifeline_reception.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/time.h"
#include "tests/main/patience.h"

// Strangers at rank 0's door, over real sockets.
namespace hetpipe {
namespace lifeline_reception_test {

using test::comes_true;
using test::patience;

const std::string kToken(kTokenLength, 'a');
constexpr int kRanks = 4;

class ReceptionTest : public ::testing::Test {
 protected:
  ReceptionTest() { open(5); }
  void open(double unknown_seconds) {
    Listener listener = listen_for(Reach::this_machine);
    port_ = listener.port;
    reception_.emplace(std::move(listener), kToken, kRanks, unknown_seconds);
  }
  Socket connect() { return connect_to({"127.0.0.1"}, port_, patience(2)); }
  FrameStream come_as(int rank) { return be_received({"127.0.0.1"}, port_, Rank{rank}, kToken); }

  // All ranks come, are welcomed, and each connection carries what its rank sends.
  void expect_all_received() {
    std::vector<FrameStream> streams;
    for (int r = 1; r < kRanks; ++r) {
      streams.push_back(come_as(r));
      streams.back().send(7, std::as_bytes(std::span(&r, 1)));
    }
    std::map<Rank, FrameStream> guests = reception_->close();
    ASSERT_EQ(guests.size(), std::size_t{kRanks - 1});
    for (auto& guest : guests) {
      const Rank rank = guest.first;
      std::vector<FrameStream::Frame> frames;
      ASSERT_TRUE(comes_true([&] { return !(frames = guest.second.receive()).empty(); }));
      ASSERT_EQ(frames.size(), 1U);
      EXPECT_EQ(frames[0].kind, 7U);
      EXPECT_EQ(std::to_integer<int>(frames[0].bytes[0]), rank.value);
    }
  }

  int port_ = 0;
  std::optional<Reception> reception_;
};

// Bytes that the other end has taken before it hung up, or `most`.
std::size_t sent_until_hung_up(const Socket& socket, std::size_t most) {
  const std::vector<std::byte> block(1 << 16, std::byte{1});
  std::size_t sent = 0;
  while (sent < most) {
    pollfd wanted{.fd = socket.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&wanted, 1, static_cast<int>(patience(20) * 1e3)) <= 0) break;
    const ssize_t now = ::send(socket.get(), block.data(), block.size(), MSG_NOSIGNAL);
    if (now <= 0) return sent;
    sent += static_cast<std::size_t>(now);
  }
  return most;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

bool hangs_up(const Socket& socket) {
  pollfd wanted{.fd = socket.get(), .events = POLLIN, .revents = 0};
  if (::poll(&wanted, 1, static_cast<int>(patience(20) * 1e3)) != 1) return false;
  std::byte one{};
  return ::recv(socket.get(), &one, 1, 0) <= 0;
}

TEST_F(ReceptionTest, RanksAlone) { expect_all_received(); }

// What the kernel's buffers take, a few MB, has to be sent before it can be noticed.
TEST_F(ReceptionTest, AHundredMegabytesFindNobody) {
  const Socket flood = connect();
  EXPECT_LT(sent_until_hung_up(flood, 100'000'000), std::size_t{50'000'000});
  expect_all_received();
}

// Frames that are sound and as large as ranks send them, from one who has not shown the token.
TEST_F(ReceptionTest, LargeFramesOfAStrangerEndIt) {
  const Socket stranger = connect();
  const std::uint32_t head[] = {1, 1 << 20};
  ASSERT_EQ(::send(stranger.get(), head, sizeof head, MSG_NOSIGNAL), ssize_t{sizeof head});
  EXPECT_LT(sent_until_hung_up(stranger, 100'000'000), std::size_t{50'000'000});
  expect_all_received();
}

TEST_F(ReceptionTest, TwoHundredSilentOnesHaveFewPlaces) {
  const std::size_t before = open_descriptors();
  std::vector<Socket> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connect());
  expect_all_received();
  // This process has both ends of those that were let in.
  EXPECT_LE(open_descriptors(), before + 200);
  for (const Socket& socket : silent) ASSERT_TRUE(hangs_up(socket));
}

TEST_F(ReceptionTest, NoMoreThanItsPlacesAtATime) {
  const std::size_t before = open_descriptors();
  std::vector<Socket> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(connect());
  std::size_t hung_up = 0;
  const auto most_are_gone = [&] {
    hung_up = 0;
    for (const Socket& socket : silent) {
      std::byte one{};
      if (::recv(socket.get(), &one, 1, MSG_DONTWAIT) == 0) ++hung_up;
    }
    return hung_up >= 200 - (64 + kRanks);
  };
  EXPECT_TRUE(comes_true(most_are_gone)) << hung_up;
  EXPECT_LE(open_descriptors(), before + 200 + 64 + kRanks);
}

TEST_F(ReceptionTest, HalfAFrameIsNotWaitedForLong) {
  open(0.5);
  const Socket half = connect();
  const std::uint32_t head[] = {1, 4 + kTokenLength};
  ASSERT_EQ(::send(half.get(), head, sizeof head, MSG_NOSIGNAL), ssize_t{sizeof head});
  ASSERT_EQ(::send(half.get(), kToken.data(), 5, MSG_NOSIGNAL), 5);
  const std::int64_t since = now_ns();
  EXPECT_TRUE(hangs_up(half));  // by itself: nobody else comes
  EXPECT_GT(now_ns() - since, to_ns(0.2));
  expect_all_received();
}

TEST_F(ReceptionTest, AnotherTokenIsNone) {
  struct {
    std::int32_t rank = 1;
    char token[kTokenLength] = {};
  } hello;
  FrameStream wrong(connect());
  wrong.send(1, std::as_bytes(std::span(&hello, 1)));
  EXPECT_TRUE(comes_true([&] { return !wrong.receive_first(0) && wrong.ended(); }));
  expect_all_received();
}

// As one whose first connection was lost in a crowd.
TEST_F(ReceptionTest, ARankThatComesAgainHasItsNewConnection) {
  const FrameStream first = come_as(2);
  expect_all_received();
}

TEST(Reception, WhoIsNotWelcomedIsToldSo) {
  Listener listener = listen_for(Reach::this_machine);
  const int port = listener.port;
  listener.socket = Socket();
  EXPECT_THROW(be_received({"127.0.0.1"}, port, Rank{1}, kToken), SystemError);
  EXPECT_THROW(be_received({"127.0.0.1"}, port, Rank{1}, "short"), SystemError);
}

}  // namespace lifeline_reception_test
}  // namespace hetpipe
