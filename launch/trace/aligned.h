// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/store/trace.h"

// The traces of all ranks by one clock, that of rank 0's host.
namespace hetpipe {

// How the clock of a host stands to that of rank 0's (ClockEstimate).
struct HostClock {
  ClockEstimate estimate{};
  std::int64_t first_ns = 0;  // since when it drifts

  double seconds(std::int64_t ns, std::int64_t origin_ns) const {
    return (static_cast<double>(ns - origin_ns) + estimate.offset_ns +
            estimate.drift * static_cast<double>(ns - first_ns)) *
           1e-9;
  }
};

// Of each host. Ranks of one share its clock: the best estimate that one of them has made holds for
// all, and none is needed on the host of rank 0. UserError where a host's ranks have made none.
std::map<std::string, HostClock> clocks_of(const std::vector<Trace>& traces);

struct AlignedEvent {
  double start = 0;  // s since the first event of any rank
  double end = 0;
  const TraceEvent* event = nullptr;
  double seconds() const { return end - start; }
};

struct AlignedRank {
  const Trace* trace = nullptr;
  double uncertainty = 0;  // s, of its clock
  std::vector<AlignedEvent> events;
};

// Points into `traces`. By rank; `seconds`: until the last event's end.
struct AlignedTraces {
  std::vector<AlignedRank> ranks;
  double seconds = 0;
};
AlignedTraces aligned(const std::vector<Trace>& traces);

// "virtual worker 0, stage 1, replica 0 on n0:1", or "parameter server on h".
std::string name_of(const TraceInfo& info);

}  // namespace hetpipe
