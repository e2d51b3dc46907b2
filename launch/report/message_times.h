// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "launch/report/reported_run.h"

// What the traces tell of messages between the stages of virtual workers.
namespace hetpipe {

struct MatchedMessage {
  std::size_t from = 0;  // ranks of the timeline
  std::size_t to = 0;
  bool forward = false;  // an activation; else a gradient
  const AlignedEvent* sent = nullptr;
  const AlignedEvent* received = nullptr;
};

// Of pipelines without replicas or several chunks per device; by receiver.
std::vector<MatchedMessage> matched_messages(const ReportedRun& run);

// One direction of a pair of devices.
struct MessageRoute {
  std::string from;
  std::string to;
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
  // Bytes by the time from when a message was handed over until its receiver had it, of the fastest
  // message: the link is at least so fast. 0: no message was waited for.
  double reached = 0;  // bytes/s
};

// By receiver and sender; of the messages that matched_messages() finds.
std::vector<MessageRoute> message_routes(const ReportedRun& run);

}  // namespace hetpipe
