// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/measure_link.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "base/time.h"
#include "launch/probe/measure_device.h"
#include "runtime/transport/typed_message.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

constexpr Channel kChannel = Channel::forward;
constexpr std::size_t kSmall = 8;          // bytes
constexpr std::size_t kFirst = 256 << 10;  // bytes of the first large message

// Before the bytes that one end sends: what the other is to do.
struct LinkQuestion {
  static constexpr std::int32_t kKind = 1;
  std::int64_t next_bytes = 0;    // of the question after this
  std::int64_t answer_bytes = 0;  // of the answer to this
  bool last = false;
};

// Times of `once` for a while, a few at least; nothing when one of them failed.
std::optional<double> median_of(double seconds,
                                const std::function<std::optional<double>()>& once) {
  constexpr std::size_t kFewestTimes = 5, kMostTimes = 1000;
  std::vector<double> times;
  const std::int64_t start = now_ns();
  while (times.size() < kFewestTimes ||
         (times.size() < kMostTimes && seconds_between(start, now_ns()) < seconds)) {
    const std::optional<double> time = once();
    if (!time) return std::nullopt;
    times.push_back(*time);
  }
  return median(std::move(times));
}

// Grows the message until it takes an eighth of the time, then the median; the bytes in `bytes`.
std::optional<double> rate_of(double seconds, double latency, std::size_t most, std::size_t& bytes,
                              const std::function<std::optional<double>(std::size_t)>& once) {
  for (bytes = std::min(kFirst, most);; bytes = std::min(4 * bytes, most)) {
    if (!once(bytes)) return std::nullopt;  // the first of a size opens what it needs
    const std::optional<double> time = once(bytes);
    if (!time) return std::nullopt;
    if (bytes == most || 4 * *time > seconds / 8) break;
  }
  const std::optional<double> time = median_of(seconds / 2, [&] { return once(bytes); });
  if (!time) return std::nullopt;
  // A small message went the other way; of short times noise must not make nothing.
  return static_cast<double>(bytes) / std::max(*time - latency, *time / 2);
}

}  // namespace

LinkEnd::LinkEnd(Transport& transport, Device& device, std::size_t most)
    : transport_(transport),
      device_(device),
      most_(std::max(most, kSmall)),
      stream_(device.make_stream()),
      moves_(transport, device, *stream_) {
  keep_lent();
}

// New memory for the next test.
void LinkEnd::keep_lent() {
  memory_.push_back({Buffer(device_, *stream_, most_, MemoryKind::messages),
                     Buffer(device_, *stream_, most_, MemoryKind::messages)});
  // Touched before anything is timed.
  const auto floats = static_cast<std::int64_t>(most_ / sizeof(float));
  for (const Buffer* buffer : {&memory_.back().out, &memory_.back().in}) {
    device_.fill(*stream_, buffer->as<float>(), 1, floats);
  }
  stream_->synchronize();
}

bool LinkEnd::wait(const Operation& operation) {
  const auto poll = [this] {
    transport_.progress();
    moves_.poll();
  };
  wait_until([&] { return operation.done() || now_ns() > end_ns_; }, poll,
             std::numeric_limits<double>::infinity(), [] { return "a link"; });
  return operation.done();
}

std::optional<double> LinkEnd::round_trip(Rank other, std::size_t out, std::size_t in,
                                          std::size_t next_out, bool last) {
  const MessageHeader header =
      header_of(LinkQuestion{.next_bytes = static_cast<std::int64_t>(next_out),
                             .answer_bytes = static_cast<std::int64_t>(in),
                             .last = last});
  const Memory& memory = memory_.back();
  const Operation answer = moves_.receive(other, kChannel, {memory.in.data(), in});
  const std::int64_t start = now_ns();
  const Operation sent = moves_.send(other, kChannel, header, {memory.out.data(), out});
  if (!wait(answer)) return std::nullopt;
  const double seconds = seconds_between(start, now_ns());
  if (!wait(sent)) return std::nullopt;
  return seconds;
}

std::optional<LinkNumbers> LinkEnd::ask(Rank other, double seconds, double deadline_seconds) {
  end_ns_ = now_ns() + to_ns(deadline_seconds);
  // A message says how long the next one is: each size is announced by a small message before.
  std::size_t announced = kSmall;
  const auto exchange = [&](std::size_t out, std::size_t in) -> std::optional<double> {
    if (announced != out) {
      if (!round_trip(other, announced, kSmall, out, false)) return std::nullopt;
      announced = out;
    }
    return round_trip(other, out, in, out, false);
  };
  LinkNumbers numbers;
  const auto measure = [&]() -> bool {
    for (int i = 0; i < 3; ++i) {  // connections are made by the first messages
      if (!exchange(kSmall, kSmall)) return false;
    }
    const auto both = median_of(seconds / 8, [&] { return exchange(kSmall, kSmall); });
    if (!both) return false;
    numbers.latency = *both / 2;
    std::size_t bytes_back = 0;
    const auto there = rate_of(seconds * 3 / 8, *both, most_, numbers.bytes,
                               [&](std::size_t bytes) { return exchange(bytes, kSmall); });
    if (!there) return false;
    const auto back = rate_of(seconds * 3 / 8, *both, most_, bytes_back,
                              [&](std::size_t bytes) { return exchange(kSmall, bytes); });
    if (!back) return false;
    numbers.there = *there;
    numbers.back = *back;
    return round_trip(other, announced, kSmall, kSmall, true).has_value();
  };
  if (measure()) return numbers;
  keep_lent();
  return std::nullopt;
}

bool LinkEnd::answer(Rank other, double deadline_seconds) {
  end_ns_ = now_ns() + to_ns(deadline_seconds);
  const Memory& memory = memory_.back();
  Operation question = moves_.receive(other, kChannel, {memory.in.data(), kSmall});
  for (;;) {
    if (!wait(question)) break;
    const auto asked = read_as<LinkQuestion>(question.header());
    // Posted before the answer goes: whatever comes finds its place.
    if (!asked.last) {
      const auto next = std::min(static_cast<std::size_t>(asked.next_bytes), most_);
      question = moves_.receive(other, kChannel, {memory.in.data(), next});
    }
    const auto bytes = std::min(static_cast<std::size_t>(asked.answer_bytes), most_);
    const Operation sent = moves_.send(other, kChannel, {}, {memory.out.data(), bytes});
    if (!wait(sent)) break;
    if (asked.last) return true;
  }
  keep_lent();
  return false;
}

std::optional<double> LinkEnd::to_itself(std::size_t bytes) {
  const Memory& memory = memory_.back();
  const Rank self = transport_.rank();
  const Operation received = moves_.receive(self, kChannel, {memory.in.data(), bytes});
  const std::int64_t start = now_ns();
  const Operation sent = moves_.send(self, kChannel, {}, {memory.out.data(), bytes});
  if (!wait(received)) return std::nullopt;
  const double seconds = seconds_between(start, now_ns());
  if (!wait(sent)) return std::nullopt;
  return seconds;
}

std::optional<LinkNumbers> LinkEnd::ask_itself(double seconds, double deadline_seconds) {
  end_ns_ = now_ns() + to_ns(deadline_seconds);
  LinkNumbers numbers;
  const auto measure = [&]() -> bool {
    const auto latency = median_of(seconds / 4, [&] { return to_itself(kSmall); });
    if (!latency) return false;
    const auto rate = rate_of(seconds * 3 / 4, *latency, most_, numbers.bytes,
                              [&](std::size_t bytes) { return to_itself(bytes); });
    if (!rate) return false;
    numbers.latency = *latency;
    numbers.there = numbers.back = *rate;
    return true;
  };
  if (measure()) return numbers;
  keep_lent();
  return std::nullopt;
}

}  // namespace hetpipe
