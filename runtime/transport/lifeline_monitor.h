// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/fields.h"
#include "runtime/transport/launcher_process.h"
#include "runtime/transport/lifeline.h"
#include "runtime/transport/lifeline_socket.h"

namespace hetpipe {

// A process, recognisable later: its number may have been given to another by then.
struct ProcessId {
  int pid = 0;
  std::string start;  // in the kernel's ticks
  static ProcessId self();
  bool alive() const;
};
constexpr auto fields_of(Type<ProcessId>) { return fields<&ProcessId::pid, &ProcessId::start>; }

// The lifeline's thread. Rank 0 is connected to all, every other rank to rank 0; both do the same:
// send what they know at every beat, receive what arrives, and detect lost ranks.
class Lifeline::Monitor {
 public:
  struct Peer {
    explicit Peer(FrameStream connection) : stream(std::move(connection)) {}
    FrameStream stream;
    std::int64_t heard_ns = 0;
    bool goodbye = false;  // it has announced that it exits
    bool lost = false;
  };
  using Peers = std::map<Rank, Peer>;

  Monitor(LifelineSetup setup, std::vector<ProcessId> processes, Peers peers);
  ~Monitor();

  bool connected() const { return hub_ || !peers_.empty(); }
  std::vector<RankState> states() const;
  std::optional<int> leaving() const;
  std::optional<int> report(Failure failure);
  void goodbye();

 private:
  void run();
  void wait_for_news();
  void take_frames(Rank from, Peer& peer);
  void take_frame(Rank from, Peer& peer, const FrameStream::Frame& frame);
  void notice_launcher();
  void notice_lost();
  std::string silence_text() const;
  void hub_is_lost(Failure::What what);
  void take_requests();
  void beat();
  void announce(const Failure& failure);
  void wake_stopped(const std::vector<Rank>& ranks);
  void leave_with(int code);
  void leave_after_grace() const;
  bool farewell_said() const;
  void say(const Failure& failure);
  void wake();

  const LifelineSetup setup_;
  const std::vector<ProcessId> processes_;
  const bool hub_;
  const std::int64_t beat_ns_;
  const std::int64_t silence_ns_;
  Peers peers_;                              // the thread's alone, as what follows it
  std::optional<LauncherProcess> launcher_;  // until it is gone
  std::int64_t next_beat_ns_ = 0;
  std::int64_t looked_ns_ = 0;  // when news were last looked for
  std::int64_t leave_ns_ = 0;
  std::optional<Failure> pending_;  // said, and not announced yet
  std::int64_t pending_until_ns_ = 0;
  bool goodbye_sent_ = false;
  bool announced_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RankState> states_;       // under mutex_
  std::optional<Failure> own_failure_;  // likewise
  bool goodbye_asked_ = false;          // likewise
  bool goodbye_done_ = false;           // likewise
  bool stop_ = false;                   // likewise
  std::atomic<int> leaving_{-1};        // the code

  Socket wake_;
  std::thread thread_;
};

}  // namespace hetpipe
