// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "partitioner/simulator/megatron.h"

namespace hetpipe {

StageActions megatron_order(int stages, StageId stage, int micro_batches, Minibatch minibatch) {
  const auto action = [&](ActionKind kind, int micro, Payload payload = Payload::activations) {
    return Action{.kind = kind, .minibatch = minibatch, .micro = micro, .payload = payload};
  };
  // The micro-batch whose action `first_slot` + 2 m falls into `slot`.
  const auto micro_in = [&](int slot, int first_slot) -> std::optional<int> {
    const int twice = slot - first_slot;
    if (twice < 0 || twice % 2 != 0 || twice / 2 >= micro_batches) return std::nullopt;
    return twice / 2;
  };
  const int first_forward = stage.value;
  const int first_backward = 2 * stages - 1 - stage.value;
  const bool has_previous = stage.value > 0;
  const bool has_next = stage.value + 1 < stages;
  StageActions actions;
  for (int slot = 0; slot < 2 * (micro_batches + stages - 1); ++slot) {
    const bool forward_slot = (slot - first_forward) % 2 == 0;
    if (forward_slot) {
      const auto sent = micro_in(slot - 1, first_backward);
      if (sent && has_previous) {
        actions.push_back(action(ActionKind::send, *sent, Payload::gradients));
      }
      const auto micro = micro_in(slot, first_forward);
      if (micro && has_previous) actions.push_back(action(ActionKind::receive, *micro));
      if (micro) actions.push_back(action(ActionKind::forward, *micro));
    } else {
      const auto micro = micro_in(slot, first_backward);
      if (micro && has_next) {
        actions.push_back(action(ActionKind::receive, *micro, Payload::gradients));
      }
      const auto sent = micro_in(slot - 1, first_forward);
      if (sent && has_next) actions.push_back(action(ActionKind::send, *sent));
      if (micro) actions.push_back(action(ActionKind::backward, *micro));
    }
  }
  return actions;
}

}  // namespace hetpipe
