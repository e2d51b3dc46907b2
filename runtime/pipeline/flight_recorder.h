// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/transport/rank_state.h"

namespace hetpipe {

// One thing that a rank did, as read back.
struct FlightEntry {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;  // 0: not ended
  Doing doing = Doing::unknown;
  std::string text;
};
struct Flight {
  RankState state;
  std::vector<FlightEntry> entries;  // by start
};

// What a rank is doing and its last actions, in a file that every process of the machine
// may read and that outlives the rank, however that ends. Written by the rank's own thread, read by
// any.
class FlightRecorder {
 public:
  // Keeps the last `entries` (0: only the current one). SystemError if the file cannot be created
  // in full.
  FlightRecorder(const std::filesystem::path& file, Rank rank, int entries);
  // Without a file, of a rank that is a thread: keeps the current one.
  FlightRecorder();
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  // Something begins, and what was before has ended. `text`: "B17", or what the rank is doing in a
  // few words ("reading data").
  void begin(std::string_view text, Doing doing = Doing::working);
  // Inside of it, a wait begins and ends. What begins inside a wait (a message is served) ends
  // with resume_wait().
  void begin_wait(std::string_view text, std::optional<Rank> waits_for);
  void resume_wait(std::string_view text, std::optional<Rank> waits_for);
  void end_wait();

  // What began last still gets on: it is as if it had begun now.
  void gets_on();

  std::int64_t begun() const { return begun_; }  // things, waits included
  RankState state() const;                       // by any thread

  // Of any rank of this machine. Nothing where there is no such file, or not a recorder's.
  static std::optional<Flight> try_read(const std::filesystem::path& file);

 private:
  struct File;
  struct Slot;
  Slot& next_slot();
  void set_current(Doing doing, std::string_view text, std::optional<Rank> waits_for,
                   std::int64_t now);

  File* file_ = nullptr;
  std::size_t bytes_ = 0;
  std::int64_t begun_ = 0;
  Slot* action_ = nullptr;  // the ring's open entries
  Slot* wait_ = nullptr;
  std::string action_text_;  // continues after a wait
  Doing action_doing_ = Doing::unknown;
};

// "in B17 (for 3.1 ms)", "waiting for ... (for 5.0 s)".
std::string describe(const RankState& state, std::int64_t now_ns);
// One line per entry: how long before `now_ns`, how long it took, what it was.
std::string describe(const Flight& flight, std::int64_t now_ns, std::string_view indent);

}  // namespace hetpipe
