// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <tuple>

#include "partitioner/schedule/schedule.h"

namespace hetpipe {

// Walks along a stage's actions from one of its sends to the next, reporting what each carries
// (partitioner/schedule/schedule.h's rule: before the B of its pass activations, after it
// gradients).
class MessageCursor {
 public:
  // `actions` outlives this. Other payloads than this one are skipped.
  MessageCursor(const StageActions& actions, Payload payload)
      : actions_(actions), payload_(payload) {}

  // Minibatches from this one on are never sent.
  void stop_before(Minibatch end) { end_ = end; }
  std::optional<Action> next();

 private:
  const StageActions& actions_;
  Payload payload_;
  std::optional<Minibatch> end_;
  std::size_t at_ = 0;
  std::set<std::tuple<Minibatch, int, int>> backward_;  // begun and not updated: with micro, chunk
};

}  // namespace hetpipe
