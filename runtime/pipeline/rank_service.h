// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "runtime/pipeline/protocol.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// What a rank does whenever it waits: moves messages on, hands control messages to whom they
// concern, and lets the roles that live in this rank (a hosted server, the reporter) do their part.
// Every wait goes through here, so every wait has the run's deadline and a name.
class RankService {
 public:
  using Handler = std::function<void(const ControlMessage&)>;

  RankService(Transport& transport, double timeout_seconds);

  Transport& transport() { return transport_; }
  void on(MessageKind kind, Handler handler);
  void also_poll(std::function<void()> poll) { polls_.push_back(std::move(poll)); }

  void poll();
  // Returns seconds waited. SystemError naming `what` past the deadline.
  double wait(const std::function<bool()>& ready, const std::function<std::string()>& what);
  double wait(const Operation& operation, const std::function<std::string()>& what);
  // For what depends on all virtual workers, the slowest too: the deadline counts from the newest
  // sign of life.
  double wait_for_others(const std::function<bool()>& ready,
                         const std::function<std::string()>& what);
  // Waits, polling, for all work enqueued on the stream so far.
  void settle(Stream& stream, const std::function<std::string()>& what);
  void wait_until_ns(std::int64_t deadline_ns);

 private:
  Transport& transport_;
  double timeout_seconds_;
  std::int64_t life_signs_ = 0;
  std::map<MessageKind, Handler> handlers_;
  std::vector<std::function<void()>> polls_;
};

}  // namespace hetpipe
