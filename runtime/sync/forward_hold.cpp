// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/forward_hold.h"

#include "base/text.h"
#include "runtime/sync/messages.h"

namespace hetpipe {

ForwardHold::ForwardHold(RankService& service, Rank decides, Minibatch next)
    : service_(service), decides_(decides), next_(next) {
  service.on<StopWhere>([this](Rank from, const StopWhere&) {
    asked_ = true;
    service_.send(from, StopHere{.next = next_});
  });
  service.on<StopGo>([this](Rank, const StopGo&) { may_go_ = true; });
}

void ForwardHold::before_forward(Minibatch p) {
  next_ = p;
  if (asked_ && !may_go_) {
    service_.wait_for_others(
        [this] { return may_go_; },
        [this] {
          return Awaited(
              format("rank %d and all others to agree on where the run stops", decides_.value));
        });
  }
  next_ = p + 1;
}

}  // namespace hetpipe
