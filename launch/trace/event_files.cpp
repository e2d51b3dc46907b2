// SPDX-License-Identifier: Apache-2.0
#include "launch/trace/event_files.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/text.h"
#include "launch/trace/event_kind.h"
#include "partitioner/schedule/schedule.h"

namespace hetpipe {
namespace {

constexpr double kMicroseconds = 1e6;  // of a second

// Tracks of a rank stand together, in the order of ranks.
int thread_of(const TraceInfo& info, Track track) {
  return info.rank * static_cast<int>(kTracks.size()) + static_cast<int>(track);
}

// {"ph": "M", ...}: what a process or a track is called, and where it stands.
Json metadata(const char* what, long long process, int thread, const char* key, Json value) {
  return Json{{"ph", "M"},
              {"name", what},
              {"pid", process},
              {"tid", thread},
              {"args", Json{{key, std::move(value)}}}};
}

class ChromeText {
 public:
  explicit ChromeText(const AlignedTraces& traces) {
    for (const AlignedRank& rank : traces.ranks) {
      servers_ = std::max<long long>(servers_, rank.trace->info.virtual_worker + 1);
    }
    for (const AlignedRank& rank : traces.ranks) add(rank);
  }
  std::string take() && { return std::move(text_) + "\n]}\n"; }

 private:
  void add(const AlignedRank& rank) {
    const TraceInfo& info = rank.trace->info;
    const bool server = info.virtual_worker < 0;
    const long long process = server ? servers_ : info.virtual_worker;
    const std::string group = server ? "parameter servers" : format("virtual worker %lld", process);
    add_line(metadata("process_name", process, 0, "name", group));
    add_line(metadata("process_sort_index", process, 0, "sort_index", process));
    for (std::size_t t = 0; t < kTracks.size(); ++t) {
      const int thread = thread_of(info, static_cast<Track>(t));
      add_line(metadata("thread_name", process, thread, "name",
                        format("rank %d, %s: %s", info.rank, name_of(info).c_str(), kTracks[t])));
      add_line(metadata("thread_sort_index", process, thread, "sort_index", thread));
    }
    for (const AlignedEvent& at : rank.events) add(info, process, at);
  }

  // Written without a document in between: there may be millions.
  void add(const TraceInfo& info, long long process, const AlignedEvent& at) {
    const TraceEvent& event = *at.event;
    const EventKind& kind = kind_of(event);
    const Action action{static_cast<ActionKind>(event.kind), event.minibatch, event.micro_batch,
                        event.chunk};
    add_line(format(
        R"({"ph":"X","name":"%s","cat":"%s","ts":%.3f,"dur":%.3f,"pid":%lld,"tid":%d,"args":{)"
        R"("minibatch":%lld,"micro-batch":%d,"version":%lld,"bytes":%lld,"samples":%d}})",
        to_string(action).c_str(), kind.name, at.start * kMicroseconds,
        at.seconds() * kMicroseconds, process, thread_of(info, kind.track),
        static_cast<long long>(event.minibatch), event.micro_batch,
        static_cast<long long>(event.version), static_cast<long long>(event.bytes), event.samples));
  }

  void add_line(const Json& event) { add_line(event.dump(Json::kOneLine)); }
  void add_line(const std::string& event) {
    text_ += text_.empty() ? "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" : ",\n";
    text_ += event;
  }

  long long servers_ = 0;  // the process behind those of the virtual workers
  std::string text_;
};

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

std::string events_to_chrome(const AlignedTraces& traces) { return ChromeText(traces).take(); }

}  // namespace hetpipe
