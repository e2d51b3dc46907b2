// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launch/trace/aligned.h"

// A run's events for other programs.
namespace hetpipe {

// A line per event: rank, place, action, start and end in seconds since the first event.
std::string events_to_csv(const AlignedTraces& traces);

// In the format of Chrome's trace viewer, which Perfetto (ui.perfetto.dev) and viztracer open too:
// a process per virtual worker and one for the parameter servers; per rank a track for each of
// computing, receiving, sending, pushes and pulls, which may overlap.
std::string events_to_chrome(const AlignedTraces& traces);

}  // namespace hetpipe
