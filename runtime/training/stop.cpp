// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/stop.h"

#include "runtime/sync/messages.h"

namespace hetpipe {
StopListener::StopListener(RankService& service, Rank decides,
                           std::function<std::optional<int>()> stop_wanted,
                           std::function<void(Label, const StopWanted&)> apply) {
  service.on<StopAt>([decides, &service, apply = std::move(apply)](Rank, const StopAt& stop) {
    apply(stop.label, {stop.by, stop.signal});
    service.send(decides, StopKnown{});
  });
  if (!stop_wanted) return;
  service.also_poll([this, decides, &service, stop_wanted = std::move(stop_wanted)] {
    const std::optional<int> signal = stop_wanted();  // throws when there was a second
    if (!signal || told_) return;
    told_ = true;
    service.send(decides, StopRequest{.signal = *signal});
  });
}

}  // namespace hetpipe
