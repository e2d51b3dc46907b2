// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/device_paths.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/time.h"
#include "kernels/buffer.h"

namespace hetpipe {
namespace {

// Of the trial: one within any path's smallest unit, one that wraps round whatever it has of them.
constexpr std::size_t kTrialBytes[] = {1000, (std::size_t{5} << 20) + 12};

std::vector<std::uint32_t> trial_words(Rank from, Rank to, std::size_t bytes) {
  const std::uint64_t key = random_key(
      {static_cast<std::uint64_t>(from.value), static_cast<std::uint64_t>(to.value), bytes});
  std::vector<std::uint32_t> words(bytes / sizeof(std::uint32_t));
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = random_bits(key, i);
  return words;
}

}  // namespace

// A small and a large message each way.
struct DevicePaths::Trial {
  struct Message {
    std::vector<std::uint32_t> sent, expected, came;
    Buffer source, target;
    Operation send{}, receive{};
  };
  std::int64_t deadline_ns = 0;
  std::vector<Message> messages{};
  std::unique_ptr<Event> read{};  // what came stands in the host's memory
};

struct DevicePaths::Way {
  Rank peer;
  bool begun = false;
  Make make{};  // until it is made
  PathKind kind = PathKind::staged;
  std::optional<Answer> own_offer, their_offer, own_verdict, their_verdict;
  std::unique_ptr<DevicePath> path;
  std::unique_ptr<Trial> trial;  // of a failed one: copies may be under way
  bool closed_here = false;
  bool closed_there = false;

  bool both_offered() const {
    return own_offer && their_offer && own_offer->yes && their_offer->yes;
  }
  bool tried() const {
    if (!own_offer || !their_offer) return false;
    return !both_offered() || (own_verdict && their_verdict);
  }
  bool in_use() const {
    return tried() && both_offered() && own_verdict->yes && their_verdict->yes;
  }
  std::string why_not() const {
    for (const auto* answer : {&own_offer, &own_verdict}) {
      if (*answer && !(*answer)->yes && !(*answer)->text.empty()) return (*answer)->text;
    }
    for (const auto* answer : {&their_offer, &their_verdict}) {
      if (*answer && !(*answer)->yes)
        return format("rank %d: %s", peer.value, (*answer)->text.c_str());
    }
    return "";
  }
};

DevicePaths::DevicePaths(Transport& transport, Device& device, Stream& stream, double trial_seconds)
    : transport_(transport), device_(device), stream_(stream), trial_seconds_(trial_seconds) {}

DevicePaths::~DevicePaths() = default;

void DevicePaths::say(Rank to, Step step, bool yes, const std::string& text) {
  send_control(transport_, to, PathWord{.step = step, .yes = yes, .text = text});
}

std::function<void(const std::string&)> DevicePaths::words_to(Rank peer) {
  return [this, peer](const std::string& word) { say(peer, Step::word, true, word); };
}

void DevicePaths::begin(Rank peer, PathKind kind, Make make) {
  std::unique_ptr<Way>& way = ways_[peer];
  if (way == nullptr) way = std::make_unique<Way>();
  ensure(!way->begun, "a path that is begun twice");
  way->peer = peer;
  way->begun = true;
  way->kind = kind;
  way->make = std::move(make);
}

bool DevicePaths::has_its_turn(const Way& way) const {
  if (way.kind != PathKind::nccl) return true;
  return std::all_of(ways_.begin(), ways_.end(), [&](const auto& other) {
    return !(other.first < way.peer) || other.second->kind != way.kind || other.second->tried();
  });
}

void DevicePaths::offer(Way& way) {
  try {
    way.path = way.make();
    way.own_offer = {true, way.path->offer()};
  } catch (const SystemError& error) {
    way.own_offer = {false, error.what()};
  }
  say(way.peer, Step::offer, way.own_offer->yes, way.own_offer->text);
}

void DevicePaths::take(Rank from, const PathWord& word) {
  std::unique_ptr<Way>& way = ways_[from];
  if (way == nullptr) way = std::make_unique<Way>();  // the peer was faster
  way->peer = from;
  const Answer answer{word.yes, word.text};
  switch (word.step) {
    case Step::offer:
      way->their_offer = answer;
      return;
    case Step::verdict:
      way->their_verdict = answer;
      return;
    case Step::word:
      if (way->path != nullptr) way->path->take_word(word.text);
      return;
    case Step::closed:
      way->closed_there = true;
      return;
  }
  ensure_failed("an unknown message about a path", std::source_location::current());
}

void DevicePaths::give_verdict(Way& way, bool yes, const std::string& why) {
  way.own_verdict = {yes, why};
  say(way.peer, Step::verdict, yes, why);
  if (yes) {
    way.trial = nullptr;
  } else {
    way.path->disconnect();
  }
}

// True when something moved.
bool DevicePaths::advance(Way& way) {
  if (!way.begun) return false;
  if (!way.own_offer && has_its_turn(way)) {
    offer(way);
    return true;
  }
  if (!way.both_offered() || way.own_verdict) return false;
  const Rank self = transport_.rank();
  try {
    if (way.their_verdict && !way.their_verdict->yes) {
      give_verdict(way, false, "");
    } else if (way.trial == nullptr) {
      way.trial = std::make_unique<Trial>();
      Trial& trial = *way.trial;
      trial.deadline_ns = now_ns() + to_ns(trial_seconds_);
      way.path->connect(way.their_offer->text);
      for (const std::size_t bytes : kTrialBytes) {
        trial.messages.push_back({trial_words(self, way.peer, bytes),
                                  trial_words(way.peer, self, bytes),
                                  {},
                                  Buffer(device_, stream_, bytes, MemoryKind::messages),
                                  Buffer(device_, stream_, bytes, MemoryKind::messages)});
      }
      for (Trial::Message& m : trial.messages) {
        const std::size_t bytes = m.source.bytes();
        device_.copy(stream_, m.source.data(), std::as_bytes(std::span(m.sent)).data(), bytes);
        m.receive = way.path->receive(Channel::path, {m.target.data(), bytes});
        m.send = way.path->send(Channel::path, header_of(PathTrial{}), {m.source.data(), bytes});
      }
    } else if (way.trial->read != nullptr) {
      if (!way.trial->read->done()) return false;
      const auto& all = way.trial->messages;
      const bool same =
          std::all_of(all.begin(), all.end(), [](const auto& m) { return m.came == m.expected; });
      give_verdict(way, same, same ? "" : "the bytes received differ from those sent");
    } else {
      auto& all = way.trial->messages;
      const bool moved = way.path->poll();
      if (std::all_of(all.begin(), all.end(),
                      [](const auto& m) { return m.receive.done() && m.send.done(); })) {
        for (auto& m : all) {
          m.came.resize(m.expected.size());
          device_.copy(stream_, std::as_writable_bytes(std::span(m.came)).data(), m.target.data(),
                       m.target.bytes());
        }
        way.trial->read = stream_.record();
        return true;
      }
      if (now_ns() > way.trial->deadline_ns) {
        give_verdict(way, false, format("no answer within %g s", trial_seconds_));
      }
      return moved;
    }
  } catch (const SystemError& error) {
    give_verdict(way, false, error.what());
  }
  return true;
}

bool DevicePaths::poll() {
  bool any = false;
  for (const auto& [peer, way] : ways_) {
    any |= advance(*way);
    if (way->own_verdict && way->own_verdict->yes) any |= way->path->poll();
  }
  return any;
}

bool DevicePaths::tried() const {
  return std::all_of(ways_.begin(), ways_.end(),
                     [](const auto& way) { return !way.second->begun || way.second->tried(); });
}

std::vector<PathResult> DevicePaths::results() const {
  std::vector<PathResult> results;
  for (const auto& [peer, way] : ways_) {
    const bool used = way->in_use();
    results.push_back({peer, used ? way->kind : PathKind::staged,
                       used ? "" : std::string(to_string(way->kind)) + ": " + way->why_not()});
  }
  return results;
}

std::string DevicePaths::waiting_for() const {
  std::vector<std::string> peers;
  for (const auto& [peer, way] : ways_) {
    if (way->begun && !way->tried()) peers.push_back(format("%d", peer.value));
  }
  return "the trial of a direct path with rank " + join(peers, ", ");
}

DevicePath* DevicePaths::path(Rank peer, Channel channel) const {
  const auto way = ways_.find(peer);
  if (way == ways_.end() || !between_devices(channel) || !way->second->in_use()) return nullptr;
  return way->second->path.get();
}

bool DevicePaths::idle() const {
  return std::all_of(ways_.begin(), ways_.end(), [](const auto& way) {
    return !way.second->in_use() || way.second->path->idle();
  });
}

void DevicePaths::close() {
  for (const auto& [peer, way] : ways_) {
    if (!way->begun || !way->both_offered() || way->closed_here) continue;
    way->path->disconnect();
    way->closed_here = true;
    say(peer, Step::closed, true, "");
  }
}

bool DevicePaths::closed() const {
  return std::all_of(ways_.begin(), ways_.end(), [](const auto& way) {
    return !way.second->closed_here || way.second->closed_there;
  });
}

}  // namespace hetpipe
