// SPDX-License-Identifier: Apache-2.0
#include "launch/trace/event_files.h"

#include <algorithm>

#include "base/text.h"
#include "launch/trace/event_kind.h"
#include "partitioner/simulator/chrome_events.h"

namespace hetpipe {
namespace {

// Tracks of a rank stand together, in the order of ranks.
int thread_of(const TraceInfo& info, Track track) {
  return info.rank * static_cast<int>(kTracks.size()) + static_cast<int>(track);
}

void add_names(const TraceInfo& info, int process, ChromeEvents& events) {
  events.name_process(process, info.virtual_worker < 0 ? "parameter servers"
                                                       : format("virtual worker %d", process));
  events.place_process(process, process);
  for (std::size_t t = 0; t < kTracks.size(); ++t) {
    const int thread = thread_of(info, static_cast<Track>(t));
    events.name_thread(process, thread,
                       format("rank %d, %s: %s", info.rank, name_of(info).c_str(), kTracks[t]));
    events.place_thread(process, thread, thread);
  }
}

}  // namespace

std::string events_to_csv(const AlignedTraces& traces) {
  std::string text =
      "rank,host,device,virtual worker,stage,replica,kind,minibatch,micro-batch,chunk,start,end,"
      "version,bytes,samples\n";
  for (const AlignedRank& rank : traces.ranks) {
    const TraceInfo& info = rank.trace->info;
    const std::string place =
        format("%d,%s,%s,%lld,%lld,%lld", info.rank, info.host.c_str(), info.device.c_str(),
               static_cast<long long>(info.virtual_worker), static_cast<long long>(info.stage),
               static_cast<long long>(info.replica));
    for (const AlignedEvent& at : rank.events) {
      const TraceEvent& event = *at.event;
      text += place;
      text += format(",%c,%lld,%d,%d,%.9f,%.9f,%lld,%lld,%d\n", event.kind,
                     static_cast<long long>(event.minibatch), event.micro_batch, event.chunk,
                     at.start, at.end, static_cast<long long>(event.version),
                     static_cast<long long>(event.bytes), event.samples);
    }
  }
  return text;
}

std::string events_to_chrome(const AlignedTraces& traces) {
  int servers = 0;  // the process behind those of the virtual workers
  for (const AlignedRank& rank : traces.ranks) {
    servers = std::max(servers, static_cast<int>(rank.trace->info.virtual_worker) + 1);
  }
  ChromeEvents events;
  for (const AlignedRank& rank : traces.ranks) {
    const TraceInfo& info = rank.trace->info;
    const int process = info.virtual_worker < 0 ? servers : static_cast<int>(info.virtual_worker);
    add_names(info, process, events);
    for (const AlignedEvent& at : rank.events) {
      const TraceEvent& event = *at.event;
      const EventKind& kind = kind_of(event);
      events.add({{kind.kind, event.minibatch, event.micro_batch, event.chunk},
                  process,
                  thread_of(info, kind.track),
                  at.start,
                  at.end},
                 format(",\"version\":%lld,\"bytes\":%lld,\"samples\":%d",
                        static_cast<long long>(event.version), static_cast<long long>(event.bytes),
                        event.samples));
    }
  }
  return std::move(events).text();
}

}  // namespace hetpipe
