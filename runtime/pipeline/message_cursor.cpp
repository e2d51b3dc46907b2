// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/message_cursor.h"

namespace hetpipe {

std::optional<Action> MessageCursor::next() {
  for (; at_ < actions_.size(); ++at_) {
    const Action& action = actions_[at_];
    if (action.kind == ActionKind::backward) {
      backward_.emplace(action.minibatch, action.micro, action.chunk);
    } else if (action.kind == ActionKind::update) {
      backward_.erase(backward_.lower_bound({action.minibatch, 0, 0}),
                      backward_.lower_bound({action.minibatch + 1, 0, 0}));
    } else if (action.kind == ActionKind::send) {
      const bool behind = backward_.contains({action.minibatch, action.micro, action.chunk});
      const Payload payload = behind ? Payload::gradients : Payload::activations;
      if (payload != payload_ || (end_ && action.minibatch >= *end_)) continue;
      ++at_;
      return action;
    }
  }
  return std::nullopt;
}

}  // namespace hetpipe
