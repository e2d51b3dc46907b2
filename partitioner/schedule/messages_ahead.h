// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/schedule/schedule.h"

namespace hetpipe {

// Messages that a device has sent and that wait because the device that should take them is slow or
// gets no core: as many as the order of their actions lets it be ahead, whatever they take. Where a
// device holds fewer micro-batches than it ever does, as many gradients are left out: what is not
// held leaves room for them.
struct MessagesAhead {
  // To the next device, beside two. Those that fill an empty pipeline are left out, for which a
  // device waits instead (StageMessages).
  int activations = 0;
  int gradients = 0;  // to the device before, beside the one that is made
  bool operator==(const MessagesAhead&) const = default;
};

// `most_held`: micro-batches of the device (HeldCounts::together). Of devices with several chunks:
// none.
MessagesAhead count_messages_ahead(const Schedule& schedule, int device, int most_held);

}  // namespace hetpipe
