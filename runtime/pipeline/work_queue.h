// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "kernels/device.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/reports.h"
#include "runtime/transport/host_pool.h"

namespace hetpipe {

// How far the host is ahead of its device: it enqueues pieces of work (a pass, an update) and waits
// only when more than so many passes are not done. What is to happen when one is done (times, a
// loss that has come down) happens in the order of the work, up to as many passes late. With a
// limit of one the host waits for every piece, which is the order in which it acts without this.
class WorkQueue {
 public:
  struct Span {  // of a piece on the device
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    double seconds() const { return seconds_between(start_ns, end_ns); }
  };

  // `passes`: so many may be under way, at least 1: a new one's end() waits for the one that many
  // before it.
  WorkQueue(Device& device, Stream& stream, RankService& service, RankReport& report, int passes);

  // Whether the host goes on before the device is done.
  bool is_ahead() const { return passes_ > 1; }

  // A piece of work is what is enqueued between these. `what`: for a wait's name.
  void begin();
  enum class Work { pass, brief };
  void end(Work work, std::string what, std::function<void(const Span&)> done);
  // Behind the newest piece, and what that does when it is done; at once where all are.
  void then(std::function<void()> what);
  // The first piece since start_action() and the last one: an action may be several.
  void start_action() { action_ = std::make_shared<Span>(); }
  std::shared_ptr<const Span> action() const { return action_; }

  // Waits until at most so many passes are not done.
  void limit(int passes);
  void finish();

  // Host memory that copies of the piece being enqueued use: page-locked where that is a thing.
  // Lent until the piece is done.
  std::byte* lend(std::size_t bytes);

  // Makes so many blocks of this memory beforehand.
  void reserve(std::size_t bytes, int blocks) { pool_.reserve(bytes, blocks); }

  // What was until now counts for no gap.
  void restart();
  // The host waited. What part of it the device stood still for is added to the report, by reason;
  // with a limit of one that is all of it.
  void waited(std::int64_t start_ns, std::int64_t end_ns, double RankReport::*reason);

 private:
  struct Piece {
    Work work = Work::pass;
    std::string what;
    std::unique_ptr<Event> start, end;
    std::vector<std::function<void(const Span&)>> done;
    std::shared_ptr<Span> action;
    std::vector<std::pair<std::byte*, std::size_t>> lent;
  };
  struct Wait {
    std::int64_t start_ns, end_ns;
    double RankReport::*reason;
  };
  void complete_first();
  void wait_for_first();
  void note_gap(std::int64_t end_ns);

  Stream& stream_;
  RankService& service_;
  RankReport& report_;
  int passes_;
  int passes_enqueued_ = 0;  // and not done
  HostPool pool_;
  std::deque<Piece> enqueued_;  // not done, or not known to be
  Piece next_;                  // being enqueued
  std::shared_ptr<Span> action_;
  std::deque<Wait> waits_;  // since the piece that was done last
  std::int64_t idle_since_ns_;
};

}  // namespace hetpipe
