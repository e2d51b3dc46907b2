// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/stop.h"

namespace hetpipe {
StopListener::StopListener(RankService& service, Rank decides,
                           std::function<std::optional<int>()> stop_wanted,
                           std::function<void(Label, const StopWanted&)> apply) {
  Transport& transport = service.transport();
  service.on(MessageKind::stop_at,
             [decides, &transport, apply = std::move(apply)](const ControlMessage& message) {
               const MessageHeader& header = message.header;
               apply(header.label, {Rank{static_cast<int>(header.minibatch)}, header.part});
               transport.send_control(decides, {.kind = code(MessageKind::stop_known)});
             });
  if (!stop_wanted) return;
  service.also_poll([this, decides, &transport, stop_wanted = std::move(stop_wanted)] {
    const std::optional<int> signal = stop_wanted();  // throws when there was a second
    if (!signal || told_) return;
    told_ = true;
    transport.send_control(decides, {.kind = code(MessageKind::stop_wanted), .part = *signal});
  });
}

}  // namespace hetpipe
