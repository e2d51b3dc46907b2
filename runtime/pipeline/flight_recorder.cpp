// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/flight_recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/text.h"
#include "base/time.h"
#include "partitioner/schedule/schedule.h"

namespace hetpipe {
namespace {

constexpr std::uint64_t kMagic = 0x3230544847494c46;  // "FLIGHT02"
constexpr std::size_t kWords = 16;
constexpr int kTries = 10'000;  // only a damaged file needs more than a few
constexpr std::size_t kTextBytes = kWords * sizeof(std::uint64_t);

}  // namespace

// Readers come at any moment: a slot's version is odd while the rest changes, and every word is
// stored with release, so that who reads a new word also sees the odd version before it.
struct FlightRecorder::Slot {
  using Word = std::atomic<std::uint64_t>;
  static_assert(Word::is_always_lock_free && sizeof(Word) == sizeof(std::uint64_t));
  Word version;  // 0: never written
  Word start_ns;
  Word end_ns;
  Word kind;  // Doing, and the rank waited for + 1 above it
  std::array<Word, kWords> text;

  void set(Doing doing, std::string_view words, std::optional<Rank> waits_for, std::int64_t start) {
    std::array<std::uint64_t, kWords> raw{};
    std::memcpy(raw.data(), words.data(), std::min(words.size(), kTextBytes));
    const std::uint64_t peer = waits_for ? static_cast<std::uint64_t>(waits_for->value) + 1 : 0;
    const std::uint64_t before = version.load(std::memory_order_relaxed);
    version.store(before + 1, std::memory_order_relaxed);
    start_ns.store(static_cast<std::uint64_t>(start), std::memory_order_release);
    end_ns.store(0, std::memory_order_release);
    kind.store(static_cast<std::uint64_t>(doing) | peer << 8, std::memory_order_release);
    for (std::size_t w = 0; w < kWords; ++w) text[w].store(raw[w], std::memory_order_release);
    version.store(before + 2, std::memory_order_release);
  }

  struct Value {
    FlightEntry entry;
    std::optional<Rank> waits_for;
  };
  // Nothing where it was never written. `whole`: nobody wrote meanwhile.
  std::optional<Value> get(bool& whole) const {
    const std::uint64_t before = version.load(std::memory_order_acquire);
    whole = before % 2 == 0;
    if (before == 0) return std::nullopt;
    Value value;
    value.entry.start_ns = static_cast<std::int64_t>(start_ns.load(std::memory_order_acquire));
    value.entry.end_ns = static_cast<std::int64_t>(end_ns.load(std::memory_order_acquire));
    const std::uint64_t both = kind.load(std::memory_order_acquire);
    std::array<std::uint64_t, kWords> raw{};
    for (std::size_t w = 0; w < kWords; ++w) raw[w] = text[w].load(std::memory_order_acquire);
    whole = whole && version.load(std::memory_order_relaxed) == before;
    value.entry.doing = static_cast<Doing>(both & 0xff);
    if (both >> 8 != 0) value.waits_for = Rank{static_cast<int>(both >> 8) - 1};
    const char* from = reinterpret_cast<const char*>(raw.data());
    value.entry.text.assign(from, ::strnlen(from, kTextBytes));
    return value;
  }
};

struct FlightRecorder::File {
  std::uint64_t magic = 0;
  std::uint64_t slots = 0;
  // Of the two, the one of the newest number is whole, even where the writer has died, or was put
  // to sleep, in the middle of the other.
  Slot::Word newest;
  std::array<Slot, 2> current;
  Slot* ring() { return reinterpret_cast<Slot*>(this + 1); }
  const Slot* ring() const { return reinterpret_cast<const Slot*>(this + 1); }

  RankState state() const {
    bool whole = false;
    std::optional<Slot::Value> now;
    for (int tries = 0; !whole && tries < kTries; ++tries) {
      now = current[newest.load(std::memory_order_acquire) % 2].get(whole);
    }
    if (!now) return {};
    return {now->entry.doing, now->waits_for, now->entry.start_ns, now->entry.text};
  }

  Flight read() const {
    Flight flight{.state = state(), .entries = {}};
    for (std::uint64_t s = 0; s < slots; ++s) {
      bool whole = false;  // one that is being written is left out: it is the current one
      auto value = ring()[s].get(whole);
      if (value && whole) flight.entries.push_back(std::move(value->entry));
    }
    std::stable_sort(flight.entries.begin(), flight.entries.end(),
                     [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; });
    return flight;
  }

  static std::optional<Flight> try_read(const std::filesystem::path& path) {
    const OpenFile descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!descriptor || ::fstat(descriptor.get(), &status) != 0) return std::nullopt;
    const auto size = static_cast<std::size_t>(status.st_size);
    if (size < sizeof(File)) return std::nullopt;
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.get(), 0);
    if (memory == MAP_FAILED) return std::nullopt;
    std::optional<Flight> flight;
    const auto* file = static_cast<const File*>(memory);
    if (file->magic == kMagic && file->slots <= (size - sizeof(File)) / sizeof(Slot)) {
      flight = file->read();
    }
    ::munmap(memory, size);
    return flight;
  }
};

FlightRecorder::FlightRecorder(const std::filesystem::path& path, Rank rank, int entries)
    : bytes_(sizeof(File) + static_cast<std::size_t>(entries) * sizeof(Slot)) {
  const auto fail = [&](const char* call, int error) {
    throw SystemError(format("the flight recorder of rank %d, %s: %s: %s", rank.value, path.c_str(),
                             call, std::strerror(error)));
  };
  std::error_code ignored;  // open() says it
  std::filesystem::create_directories(path.parent_path(), ignored);
  std::filesystem::remove(path, ignored);  // an earlier run's may still be looked at
  const OpenFile descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!descriptor) fail("open", errno);
  // A disk without room must show here: later it would be a SIGBUS.
  if (const int error = ::posix_fallocate(descriptor.get(), 0, static_cast<off_t>(bytes_))) {
    std::filesystem::remove(path, ignored);
    fail("posix_fallocate", error);
  }
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (memory == MAP_FAILED) fail("mmap", errno);
  file_ =
      new (memory) File{.slots = static_cast<std::uint64_t>(entries), .newest = {}, .current = {}};
  for (int s = 0; s < entries; ++s) new (file_->ring() + s) Slot{};
  file_->magic = kMagic;
}

FlightRecorder::FlightRecorder() : bytes_(sizeof(File)) {
  void* memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  file_ = new (memory) File{.newest = {}, .current = {}};
  file_->magic = kMagic;
}

FlightRecorder::~FlightRecorder() { ::munmap(file_, bytes_); }

FlightRecorder::Slot& FlightRecorder::next_slot() {
  return file_->ring()[static_cast<std::uint64_t>(begun_++) % file_->slots];
}

void FlightRecorder::set_current(Doing doing, std::string_view text, std::optional<Rank> waits_for,
                                 std::int64_t now) {
  const std::uint64_t next = file_->newest.load(std::memory_order_relaxed) + 1;
  file_->current[next % 2].set(doing, text, waits_for, now);
  file_->newest.store(next, std::memory_order_release);
}

void FlightRecorder::begin(std::string_view text, Doing doing) {
  const std::int64_t now = now_ns();
  set_current(doing, text, std::nullopt, now);
  action_text_ = text;
  action_doing_ = doing;
  if (action_ != nullptr) action_->end_ns.store(static_cast<std::uint64_t>(now));
  action_ = nullptr;
  if (file_->slots == 0) {
    ++begun_;
    return;
  }
  action_ = &next_slot();
  action_->set(doing, text, std::nullopt, now);
  if (action_ == wait_) wait_ = nullptr;  // the ring has come round
}

void FlightRecorder::gets_on() { set_current(action_doing_, action_text_, std::nullopt, now_ns()); }

void FlightRecorder::begin_wait(std::string_view text, std::optional<Rank> waits_for) {
  const std::int64_t now = now_ns();
  set_current(Doing::waiting, text, waits_for, now);
  if (file_->slots == 0) {
    ++begun_;
    return;
  }
  wait_ = &next_slot();
  wait_->set(Doing::waiting, text, waits_for, now);
  if (action_ == wait_) action_ = nullptr;
}

void FlightRecorder::resume_wait(std::string_view text, std::optional<Rank> waits_for) {
  const std::int64_t now = now_ns();
  if (action_ != nullptr) action_->end_ns.store(static_cast<std::uint64_t>(now));
  action_ = nullptr;
  set_current(Doing::waiting, text, waits_for, now);
}

void FlightRecorder::end_wait() {
  const std::int64_t now = now_ns();
  if (wait_ != nullptr) wait_->end_ns.store(static_cast<std::uint64_t>(now));
  wait_ = nullptr;
  set_current(action_doing_, action_text_, std::nullopt, now);
}

RankState FlightRecorder::state() const { return file_->state(); }

std::optional<Flight> FlightRecorder::try_read(const std::filesystem::path& file) {
  return File::try_read(file);
}

std::string describe(const RankState& state, std::int64_t now_ns) {
  if (state.doing == Doing::unknown || state.text.empty()) return "at its start";
  const char* how = state.doing == Doing::waiting  ? "waiting for "
                    : try_parse_action(state.text) ? "in "
                                                   : "";
  return format("%s%s (for %s)", how, state.text.c_str(),
                format_seconds(seconds_between(state.since_ns, now_ns)).c_str());
}

std::string describe(const Flight& flight, std::int64_t now_ns, std::string_view indent) {
  std::string text;
  for (const FlightEntry& entry : flight.entries) {
    const std::string before = format_seconds(seconds_between(entry.start_ns, now_ns));
    const std::string lasted =
        entry.end_ns == 0 ? "not ended"
                          : "for " + format_seconds(seconds_between(entry.start_ns, entry.end_ns));
    text += format("%.*s%10s before  %-13s %s%s\n", static_cast<int>(indent.size()), indent.data(),
                   before.c_str(), lasted.c_str(),
                   entry.doing == Doing::waiting ? "waits for " : "", entry.text.c_str());
  }
  return text;
}

}  // namespace hetpipe
