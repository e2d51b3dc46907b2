// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/ids.h"

namespace hetpipe {

// Labels of a run at which something is due: every `every` waves (0: none of these), where an
// epoch's last sample is in, and the run's last one. By arithmetic: a run may have millions.
struct DueLabels {
  Label after = 0;  // those beyond this one
  Label end = 0;    // the last
  Wave every = 0;
  // Samples that one wave of all virtual workers takes, of a stream of epochs; where label `first`
  // is in it.
  Label first = 0;
  std::int64_t samples_before = 0;
  std::int64_t samples_of_wave = 1;
  std::int64_t samples_of_epoch = 1;

  // The first one beyond `label`; nothing behind the last.
  std::optional<Label> next(Label label) const {
    label = std::max(label, after);
    if (label >= end) return std::nullopt;
    Label due = end;
    if (every > 0) due = std::min(due, (label / every + 1) * every);
    const std::int64_t taken = samples_before + (label - first) * samples_of_wave;
    const std::int64_t epoch_left = samples_of_epoch - taken % samples_of_epoch;
    return std::min(due, label + (epoch_left + samples_of_wave - 1) / samples_of_wave);
  }
  bool contains(Label label) const { return next(label - 1) == label; }
};

}  // namespace hetpipe
