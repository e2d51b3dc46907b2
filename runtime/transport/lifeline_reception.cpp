// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/lifeline_reception.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/blocked_signals.h"
#include "base/error.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

constexpr double kConnectSeconds = 2;       // for each address
constexpr double kReceivedSeconds = 10;     // for a rank, with all its attempts
constexpr std::size_t kUnknownPlaces = 64;  // beside one for each rank, as all come at once
constexpr auto kNextAttempt = std::chrono::milliseconds(20);
enum GreetingKind : std::uint32_t { kHello = 1, kWelcome };

// The first frame on a connection.
struct Hello {
  std::int32_t rank = 0;
  std::array<char, kTokenLength> token{};
};

void wait_on(const FrameStream& stream, std::int64_t until_ns) {
  pollfd wanted{.fd = stream.descriptor(), .events = POLLIN, .revents = 0};
  const std::int64_t wait = std::max<std::int64_t>(0, until_ns - now_ns());
  ::poll(&wanted, 1, static_cast<int>(wait / 1'000'000) + 1);
}

// Whether rank 0 has answered; not: it has hung up, or the time is over.
bool is_welcomed(FrameStream& stream, std::int64_t until_ns) {
  while (!stream.ended() && now_ns() < until_ns) {
    if (const auto frame = stream.receive_first(0)) return frame->kind == kWelcome;
    if (!stream.ended()) wait_on(stream, until_ns);
  }
  return false;
}

}  // namespace

Reception::Reception(Listener listener, const std::string& token, int ranks, double unknown_seconds)
    : listener_(std::move(listener)),
      token_(token),
      ranks_(ranks),
      places_(kUnknownPlaces + static_cast<std::size_t>(ranks)),
      unknown_seconds_(unknown_seconds),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ensure(token_.size() == kTokenLength, "a token of another length");
  if (!wake_) throw SystemError(format("eventfd: %s", std::strerror(errno)));
  const BlockedSignals in_the_thread;
  thread_ = std::thread([this] { run(); });
}

Reception::~Reception() { close(); }

std::map<Rank, FrameStream> Reception::close() {
  closed_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  unknown_.clear();
  listener_.socket.reset();
  return std::move(guests_);
}

void Reception::run() {
  while (!closed_) {
    wait_for_news();
    let_in();
    hear(now_ns());
  }
}

void Reception::wait_for_news() {
  std::vector<pollfd> wanted{{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                             {.fd = listener_.socket.get(), .events = POLLIN, .revents = 0}};
  std::int64_t until = now_ns() + to_ns(unknown_seconds_);
  for (const Unknown& one : unknown_) {
    wanted.push_back({.fd = one.stream.descriptor(), .events = POLLIN, .revents = 0});
    until = std::min(until, one.until_ns);
  }
  const std::int64_t wait = std::max<std::int64_t>(0, until - now_ns());
  ::poll(wanted.data(), wanted.size(), static_cast<int>(wait / 1'000'000) + 1);
}

// As many as there are places for, and then those who are here are heard first.
void Reception::let_in() {
  for (std::size_t i = 0; i < places_; ++i) {
    std::optional<Socket> socket = try_accept(listener_.socket);
    if (!socket) return;
    if (unknown_.size() == places_) unknown_.erase(unknown_.begin());
    unknown_.push_back({FrameStream(std::move(*socket)), now_ns() + to_ns(unknown_seconds_)});
  }
}

void Reception::hear(std::int64_t now) {
  std::erase_if(unknown_, [&](Unknown& one) {
    const auto frame = one.stream.receive_first(sizeof(Hello));
    if (!frame) return one.stream.ended() || now > one.until_ns;
    Hello hello;
    if (frame->kind != kHello || frame->bytes.size() != sizeof hello) return true;
    std::memcpy(&hello, frame->bytes.data(), sizeof hello);
    if (std::memcmp(hello.token.data(), token_.data(), kTokenLength) != 0) return true;
    if (hello.rank <= 0 || hello.rank >= ranks_) return true;
    one.stream.send(kWelcome);
    // A rank that comes again has given its first connection up.
    guests_.insert_or_assign(Rank{hello.rank}, std::move(one.stream));
    return true;
  });
}

FrameStream be_received(const std::vector<std::string>& addresses, int port, Rank rank,
                        const std::string& token) {
  Hello hello{.rank = rank.value};
  if (token.size() != kTokenLength) throw SystemError("rank 0 is of another build");
  std::memcpy(hello.token.data(), token.data(), kTokenLength);
  const std::int64_t until = now_ns() + to_ns(kReceivedSeconds);
  for (;;) {
    FrameStream stream(connect_to(addresses, port, kConnectSeconds));
    stream.send(kHello, std::as_bytes(std::span(&hello, 1)));
    if (is_welcomed(stream, until)) return stream;
    if (now_ns() >= until) {
      throw SystemError(
          format("port %d: not welcomed by rank 0 within %.0f s", port, kReceivedSeconds));
    }
    std::this_thread::sleep_for(kNextAttempt);
  }
}

}  // namespace hetpipe
