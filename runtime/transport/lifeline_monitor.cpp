// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/lifeline_monitor.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/blocked_signals.h"
#include "base/error.h"
#include "base/temporary_file.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

constexpr double kLongestBeat = 1;          // s
constexpr double kSilence = 0.7;            // of the time-out
constexpr std::int64_t kHold = 50'000'000;  // ns: a rank's failure may come of one that has died
constexpr std::chrono::seconds kAnswer{3};  // from rank 0, to a rank that has failed
constexpr std::chrono::seconds kFarewell{2};
constexpr std::chrono::milliseconds kSpeech{300};
constexpr double kStagger = 0.1;  // s between ranks that want to speak for a lost rank 0

enum FrameKind : std::uint32_t { kState = 16, kTable, kFailure, kLeave, kGoodbye, kFarewellFrame };

// What kFailure and kLeave begin with; kFailure continues with its text, kLeave with lost ranks.
struct Verdict {
  std::int32_t code = 0;
  std::int32_t culprit = -1;
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
std::optional<T> try_read(std::span<const std::byte> bytes, std::size_t offset = 0) {
  if (bytes.size() < offset + sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// Field 22 of /proc/PID/stat; the command before it may hold blanks and brackets.
std::string start_of(int pid) {
  std::ifstream file(format("/proc/%d/stat", pid));
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::size_t close = all.rfind(')');
  if (close == std::string::npos) return "";
  const std::vector<std::string> fields = split(all.substr(close + 1), ' ');
  return fields.size() > 20 ? fields[20] : "";
}

}  // namespace

ProcessId ProcessId::self() {
  const int pid = static_cast<int>(::getpid());
  return {pid, start_of(pid)};
}

bool ProcessId::alive() const { return pid > 0 && !start.empty() && start_of(pid) == start; }

Lifeline::Monitor::Monitor(LifelineSetup setup, std::vector<ProcessId> processes, Peers peers)
    : setup_(std::move(setup)),
      processes_(std::move(processes)),
      hub_(setup_.rank == Rank{0}),
      beat_ns_(to_ns(std::min(kLongestBeat, setup_.timeout_seconds / 10))),
      silence_ns_(to_ns(kSilence * setup_.timeout_seconds)),
      peers_(std::move(peers)),
      launcher_(launcher_process()),
      states_(processes_.size()),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw SystemError(format("eventfd: %s", std::strerror(errno)));
  looked_ns_ = now_ns();
  for (auto& [rank, peer] : peers_) peer.heard_ns = looked_ns_;
  const BlockedSignals in_the_thread;
  thread_ = std::thread([this] { run(); });
}

Lifeline::Monitor::~Monitor() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

std::vector<RankState> Lifeline::Monitor::states() const {
  const std::lock_guard lock(mutex_);
  return states_;
}

std::optional<int> Lifeline::Monitor::leaving() const {
  const int code = leaving_.load(std::memory_order_acquire);
  return code < 0 ? std::nullopt : std::optional(code);
}

std::optional<int> Lifeline::Monitor::report(Failure failure) {
  std::unique_lock lock(mutex_);
  own_failure_ = std::move(failure);
  wake();
  changed_.wait_for(lock, kAnswer, [&] { return leaving().has_value(); });
  return leaving();
}

void Lifeline::Monitor::goodbye() {
  std::unique_lock lock(mutex_);
  goodbye_asked_ = true;
  wake();
  const std::chrono::duration<double> limit =
      hub_ ? std::chrono::duration<double>(setup_.timeout_seconds) : kFarewell;
  const bool heard =
      changed_.wait_for(lock, limit, [&] { return goodbye_done_ || leaving().has_value(); });
  if (heard || !hub_) return;
  throw SystemError(format("waited %.1f s for all ranks to finish", setup_.timeout_seconds));
}

void Lifeline::Monitor::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void Lifeline::Monitor::run() {
  for (;;) {
    wait_for_news();
    notice_launcher();
    for (auto& [rank, peer] : peers_) take_frames(rank, peer);
    notice_lost();
    take_requests();
    if (pending_ && now_ns() >= pending_until_ns_) {
      announce(*pending_);
      pending_.reset();
    }
    beat();
    for (auto& [rank, peer] : peers_) peer.stream.flush();
    leave_after_grace();
    const std::lock_guard lock(mutex_);
    if (goodbye_sent_ && !goodbye_done_ && farewell_said()) {
      goodbye_done_ = true;
      changed_.notify_all();
    }
    if (stop_) return;
  }
}

void Lifeline::Monitor::wait_for_news() {
  std::int64_t until = next_beat_ns_;
  if (pending_) until = std::min(until, pending_until_ns_);
  if (leaving()) until = std::min(until, leave_ns_);
  std::vector<pollfd> wanted{{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  if (launcher_ && launcher_->ended) {
    wanted.push_back({.fd = launcher_->ended.get(), .events = POLLIN, .revents = 0});
  }
  for (const auto& [rank, peer] : peers_) {
    if (peer.stream.ended()) continue;
    if (!peer.goodbye && !peer.lost) until = std::min(until, peer.heard_ns + silence_ns_ + 1);
    const int events = POLLIN | (peer.stream.sending() ? POLLOUT : 0);
    wanted.push_back({peer.stream.descriptor(), static_cast<short>(events), 0});
  }
  const std::int64_t wait = std::max<std::int64_t>(0, until - now_ns());
  ::poll(wanted.data(), wanted.size(), static_cast<int>(wait / 1'000'000 + (wait > 0 ? 1 : 0)));
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &count, sizeof count);
  // Who was stopped itself has heard nobody, and nobody is to blame.
  const std::int64_t now = now_ns();
  if (now - looked_ns_ > 2 * beat_ns_ + 100'000'000) {
    for (auto& [rank, peer] : peers_) peer.heard_ns = now;
  }
  looked_ns_ = now;
}

void Lifeline::Monitor::take_frames(Rank from, Peer& peer) {
  for (const FrameStream::Frame& frame : peer.stream.receive()) {
    peer.heard_ns = now_ns();
    take_frame(from, peer, frame);
  }
}

void Lifeline::Monitor::take_frame(Rank from, Peer& peer, const FrameStream::Frame& frame) {
  const std::span<const std::byte> bytes(frame.bytes);
  const std::int64_t now = now_ns();
  switch (frame.kind) {
    case kState: {
      RankState state = state_from_bytes(bytes, now);
      const std::lock_guard lock(mutex_);
      states_[static_cast<std::size_t>(from.value)] = std::move(state);
      return;
    }
    case kTable: {
      const std::size_t each = to_bytes(RankState{}, now).size();
      const std::lock_guard lock(mutex_);
      for (std::size_t r = 0; r < states_.size() && (r + 1) * each <= bytes.size(); ++r) {
        states_[r] = state_from_bytes(bytes.subspan(r * each, each), now);
      }
      return;
    }
    case kFailure: {
      const auto verdict = try_read<Verdict>(bytes);
      if (!verdict || pending_ || announced_) return;  // the first one counts
      Failure failure{.ranks = {from}, .code = verdict->code, .text = {}, .culprit = {}};
      failure.text.assign(reinterpret_cast<const char*>(bytes.data()) + sizeof(Verdict),
                          bytes.size() - sizeof(Verdict));
      if (verdict->culprit >= 0) failure.culprit = Rank{verdict->culprit};
      pending_ = std::move(failure);
      pending_until_ns_ = now + kHold;
      return;
    }
    case kLeave: {
      const auto verdict = try_read<Verdict>(bytes);
      if (!verdict) return;
      std::vector<Rank> stopped;
      for (std::size_t at = sizeof(Verdict); const auto rank = try_read<std::int32_t>(bytes, at);
           at += sizeof(std::int32_t)) {
        stopped.emplace_back(*rank);
      }
      wake_stopped(stopped);
      leave_with(verdict->code);
      return;
    }
    case kGoodbye:
      peer.goodbye = true;
      if (hub_) peer.stream.send(kFarewellFrame);
      return;
    case kFarewellFrame:
      peer.goodbye = true;
      return;
    default:
      return;
  }
}

std::string Lifeline::Monitor::silence_text() const {
  return format_seconds(seconds_between(0, silence_ns_));
}

// Whose launcher is gone is about to be ended, and others of its host with it: of all that comes of
// it this is the reason, so nothing is waited for.
void Lifeline::Monitor::notice_launcher() {
  if (!launcher_ || goodbye_sent_ || !launcher_->gone()) return;
  Failure failure{
      .what = Failure::What::said, .ranks = {setup_.rank}, .code = 0, .text = {}, .culprit = {}};
  failure.code = static_cast<int>(ExitCode::system);
  failure.text = format(
      "its launcher is gone (%s, process %d: was it killed?), which ends the ranks. The run ends "
      "here; resume it from its newest checkpoint with --resume.",
      launcher_->name.c_str(), launcher_->pid);
  launcher_.reset();
  if (hub_) return announce(failure);
  const std::lock_guard lock(mutex_);
  own_failure_ = std::move(failure);
}

// Everybody who is lost at one look is named together.
void Lifeline::Monitor::notice_lost() {
  Failure died{.what = Failure::What::died, .ranks = {}, .code = 0, .text = {}, .culprit = {}};
  Failure silent{.what = Failure::What::silent, .ranks = {}, .code = 0, .text = {}, .culprit = {}};
  died.code = silent.code = static_cast<int>(ExitCode::system);
  for (auto& [rank, peer] : peers_) {
    if (peer.goodbye || peer.lost) continue;
    if (peer.stream.ended()) {
      died.ranks.push_back(rank);
    } else if (looked_ns_ - peer.heard_ns > silence_ns_) {
      silent.ranks.push_back(rank);
    } else {
      continue;
    }
    peer.lost = true;
  }
  silent.text = silence_text();
  for (const Failure* failure : {&died, &silent}) {
    if (failure->ranks.empty()) continue;
    if (hub_) {
      announce(*failure);
    } else {
      hub_is_lost(failure->what);
    }
  }
}

// The first of the others that is left speaks; usually rank 1.
void Lifeline::Monitor::hub_is_lost(Failure::What what) {
  if (leaving()) return;
  const double turn = std::min(kStagger * (setup_.rank.value - 1), 1.0);
  std::this_thread::sleep_for(std::chrono::duration<double>(turn));
  Failure failure{.what = what, .ranks = {Rank{0}}, .code = 0, .text = {}, .culprit = {}};
  failure.code = static_cast<int>(ExitCode::system);
  if (what == Failure::What::silent) failure.text = silence_text();
  if (setup_.claim()) {
    say(failure);
  } else {  // leaving at once would make the launcher end the one that speaks
    std::this_thread::sleep_for(kSpeech);
  }
  if (what == Failure::What::silent) {
    const Verdict verdict{failure.code, -1};
    for (auto& [rank, peer] : peers_) peer.stream.send(kLeave, bytes_of(verdict));
    wake_stopped(failure.ranks);
  }
  leave_with(failure.code);
}

void Lifeline::Monitor::take_requests() {
  std::unique_lock lock(mutex_);
  std::optional<Failure> failure = std::move(own_failure_);
  own_failure_.reset();
  const bool goodbye = goodbye_asked_ && !goodbye_sent_;
  lock.unlock();
  if (failure && hub_ && !pending_ && !announced_) {
    failure->ranks = {setup_.rank};
    pending_ = std::move(failure);
    pending_until_ns_ = now_ns() + kHold;
  } else if (failure && !hub_) {
    const Verdict verdict{failure->code, failure->culprit ? failure->culprit->value : -1};
    std::vector<std::byte> bytes(bytes_of(verdict).begin(), bytes_of(verdict).end());
    const auto text = std::as_bytes(std::span(failure->text));
    bytes.insert(bytes.end(), text.begin(), text.end());
    for (auto& [rank, peer] : peers_) peer.stream.send(kFailure, bytes);
  }
  if (goodbye) {
    goodbye_sent_ = true;
    if (!hub_) {
      for (auto& [rank, peer] : peers_) peer.stream.send(kGoodbye);
    }
  }
}

// Rank 0 has heard all, or another rank has been heard by rank 0.
bool Lifeline::Monitor::farewell_said() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const auto& entry) { return entry.second.goodbye || entry.second.lost; });
}

void Lifeline::Monitor::beat() {
  const std::int64_t now = now_ns();
  if (now < next_beat_ns_) return;
  next_beat_ns_ = now + beat_ns_;
  RankState own = setup_.state();
  std::vector<std::byte> bytes;
  if (hub_) {
    const std::lock_guard lock(mutex_);
    states_[0] = std::move(own);
    for (RankState state : states_) {
      state.text.clear();  // known where it is said; a table for many ranks stays small
      const std::vector<std::byte> one = to_bytes(state, now);
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
  } else {
    bytes = to_bytes(own, now);
  }
  for (auto& [rank, peer] : peers_) {
    if (!peer.stream.ended() && !peer.lost) peer.stream.send(hub_ ? kTable : kState, bytes);
  }
}

void Lifeline::Monitor::say(const Failure& failure) {
  try {
    setup_.say(failure, states());
  } catch (const std::exception&) {
    // A full disk, a closed terminal: nothing that could be said about it would be heard.
  }
}

void Lifeline::Monitor::announce(const Failure& failure) {
  if (announced_ || leaving()) return;
  announced_ = true;
  {
    RankState own = setup_.state();
    const std::lock_guard lock(mutex_);
    states_[0] = std::move(own);
  }
  say(failure);
  const Verdict verdict{failure.code, -1};
  std::vector<std::byte> bytes(bytes_of(verdict).begin(), bytes_of(verdict).end());
  const bool silent = failure.what == Failure::What::silent;
  for (const Rank rank : silent ? failure.ranks : std::vector<Rank>{}) {
    const auto one = bytes_of(rank.value);
    bytes.insert(bytes.end(), one.begin(), one.end());
  }
  for (auto& [rank, peer] : peers_) {
    if (!peer.stream.ended()) peer.stream.send(kLeave, bytes);
  }
  if (silent) wake_stopped(failure.ranks);
  leave_with(failure.code);
}

// A stopped rank does not hear that it should leave, and some launchers do not end it. Woken, it
// finds the word in its socket and leaves with the same code; killed, it would give the job
// another.
void Lifeline::Monitor::wake_stopped(const std::vector<Rank>& ranks) {
  const auto at = [](Rank rank) { return static_cast<std::size_t>(rank.value); };
  for (const Rank rank : ranks) {
    if (at(rank) >= processes_.size() || rank == setup_.rank) continue;
    if (setup_.machines[at(rank)] != setup_.machines[at(setup_.rank)]) continue;
    if (processes_[at(rank)].alive()) ::kill(processes_[at(rank)].pid, SIGCONT);
  }
}

void Lifeline::Monitor::leave_with(int code) {
  if (leaving()) return;
  const std::lock_guard lock(mutex_);
  leave_ns_ = now_ns() + to_ns(setup_.grace_seconds);
  leaving_.store(code, std::memory_order_release);
  changed_.notify_all();
}

// The rank's own thread may hang in a call that nothing else can end. Its buffers are not flushed:
// that could hang as well.
void Lifeline::Monitor::leave_after_grace() const {
  const auto code = leaving();
  if (!code || now_ns() < leave_ns_) return;
  remove_temporary_files();
  std::_Exit(*code);
}

}  // namespace hetpipe
