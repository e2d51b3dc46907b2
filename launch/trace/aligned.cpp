// SPDX-License-Identifier: Apache-2.0
#include "launch/trace/aligned.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {

std::map<std::string, HostClock> clocks_of(const std::vector<Trace>& traces) {
  std::map<std::string, HostClock> clocks;
  for (const Trace& trace : traces) {
    if (trace.info.rank == 0) clocks[trace.info.host] = {};
  }
  for (const Trace& trace : traces) {
    if (trace.events.empty() || !trace.clock.compared()) continue;
    const HostClock own{trace.clock, trace.events.front().start_ns};
    const auto [found, added] = clocks.try_emplace(trace.info.host, own);
    if (!added && trace.clock.uncertainty_ns < found->second.estimate.uncertainty_ns) {
      found->second = own;
    }
  }
  for (const Trace& trace : traces) {
    if (trace.events.empty() || clocks.contains(trace.info.host)) continue;
    throw UserError(
        "", format("the clock of host %s was never compared with that of rank 0's host (the run "
                   "ended before), so nobody knows how its ranks' times stand to the others'. "
                   "Give a run that has trained.",
                   trace.info.host.c_str()));
  }
  return clocks;
}

AlignedTraces aligned(const std::vector<Trace>& traces) {
  const std::map<std::string, HostClock> clocks = clocks_of(traces);
  AlignedTraces all;
  std::int64_t origin = 0;
  for (const Trace& trace : traces) {
    if (!trace.events.empty()) origin = trace.events.front().start_ns;
  }
  double first = std::numeric_limits<double>::infinity();
  for (const Trace& trace : traces) {
    AlignedRank& rank = all.ranks.emplace_back();
    rank.trace = &trace;
    if (trace.events.empty()) continue;
    const HostClock& clock = clocks.at(trace.info.host);
    rank.uncertainty = clock.estimate.uncertainty_ns * 1e-9;
    for (const TraceEvent& event : trace.events) {
      rank.events.push_back(
          {clock.seconds(event.start_ns, origin), clock.seconds(event.end_ns, origin), &event});
      first = std::min(first, rank.events.back().start);
    }
  }
  for (AlignedRank& rank : all.ranks) {
    for (AlignedEvent& event : rank.events) {
      event.start -= first;
      event.end -= first;
      all.seconds = std::max(all.seconds, event.end);
    }
  }
  return all;
}

std::string name_of(const TraceInfo& info) {
  if (info.virtual_worker < 0) return "parameter server on " + info.host;
  return format("virtual worker %lld, stage %lld, replica %lld on %s",
                static_cast<long long>(info.virtual_worker), static_cast<long long>(info.stage),
                static_cast<long long>(info.replica), info.device.c_str());
}

}  // namespace hetpipe
