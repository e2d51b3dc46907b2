// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/report/device_time.h"
#include "launch/report/reported_run.h"

// A device that is slow now and then, which the sums of its times do not tell from one that is slow.
namespace hetpipe {

struct SlowSpells {
  double seconds = 0;  // of its actions beyond twice the median of their kind
  int actions = 0;     // those that took longer
  bool alone = false;  // the other devices lost less than half as much of their time
};
// By the run's traces; nothing without them.
SlowSpells slow_spells(const ReportedRun& run, const DeviceTime& time);

}  // namespace hetpipe
