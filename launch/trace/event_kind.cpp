// SPDX-License-Identifier: Apache-2.0
#include "launch/trace/event_kind.h"

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {

const EventKind& kind_of(const TraceEvent& event) {
  for (const EventKind& known : kEventKinds) {
    if (static_cast<char>(known.kind) == event.kind) return known;
  }
  throw UserError("", format("holds an event of kind '%c', which this version does not know. Read "
                             "it with the version that wrote it.",
                             event.kind));
}

}  // namespace hetpipe
