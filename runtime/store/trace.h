// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "base/log.h"

// Traces: what each rank did and when, one HDF5 file per rank (docs/checkpoint.md says how to read
// one), and a master file that links to them.
namespace hetpipe {

// One action as it was executed.
struct TraceEvent {
  std::int64_t start_ns = 0;  // of the rank's own monotonic clock
  std::int64_t end_ns = 0;
  char kind = '?';  // as in a schedule: F B W R S V U P L E C
  std::int64_t minibatch = 0;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;
  std::int64_t version = 0;  // label of the weights that were used
  std::int64_t bytes = 0;    // of the message, 0 where there is none
  std::int32_t samples = 0;
  bool operator==(const TraceEvent&) const = default;
};

// One value of a series that is written once per wave.
struct MetricPoint {
  Wave wave = 0;
  double value = 0;
  bool operator==(const MetricPoint&) const = default;
};

// The rank's clock against rank 0's: time of rank 0 = own + offset_ns + drift * (own - start).
struct ClockEstimate {
  double offset_ns = 0;
  double drift = 0;           // ns per ns
  double uncertainty_ns = 0;  // half a round trip; less than 0: not compared (yet)
  bool compared() const { return uncertainty_ns >= 0; }
  bool operator==(const ClockEstimate&) const = default;
};

struct TraceInfo {
  int rank = 0;
  std::string host;
  std::string device;                // "node:index"
  std::int64_t virtual_worker = -1;  // -1: none (a parameter server)
  std::int64_t stage = -1;
  std::int64_t replica = 0;
  bool operator==(const TraceInfo&) const = default;
};

struct Trace {
  TraceInfo info;
  ClockEstimate clock;
  std::vector<TraceEvent> events;  // in the order of their recording
  std::map<std::string, std::vector<MetricPoint>> metrics;
};

// Writes a rank's trace. Events and metrics wait in memory until flush(), or until `capacity` of
// them wait; what was flushed can be read even when the rank is killed later. One thread at a time.
//
// Another thread of the process may be busy in the store (a checkpoint is laid out, another rank's
// trace is appended). What waits then continues waiting, so that training does not, up to
// kMostBuffers times the capacity; the writer that has reached that waits itself: nothing is
// dropped.
class TraceWriter {
 public:
  enum class IfBusy { skip, wait };
  static constexpr std::size_t kMostBuffers = 4;

  // Replaces an existing file. SystemError when it cannot be made.
  TraceWriter(const std::filesystem::path& path, const TraceInfo& info,
              std::size_t capacity = 65536);
  ~TraceWriter();  // flushes, waiting if need be; a failure is logged and dropped
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;

  void record(const TraceEvent& event);
  void metric(const std::string& name, Wave wave, double value);  // name: no '/'
  // Replaces the estimate in the file: at the start, and again at the end with a drift.
  void set_clock(const ClockEstimate& clock);
  // Appends what waits. SystemError when it cannot be written (no space left): from then on this
  // writer drops what it is given, so that a training can continue without its trace.
  void flush(IfBusy if_busy = IfBusy::skip);
  bool failed() const;

 private:
  class File;
  void flush_when_full();

  std::unique_ptr<File> file_;
  std::size_t capacity_;
  std::vector<TraceEvent> events_;
  std::map<std::string, std::vector<MetricPoint>> metrics_;
  std::size_t waiting_ = 0;
};

// A file with one link per rank, /rank0 ..., relative to its own folder: move them together.
void write_trace_master(const std::filesystem::path& path,
                        const std::vector<std::filesystem::path>& rank_files);

// One rank's file. UserError naming the file when it is not a trace.
Trace read_trace(const std::filesystem::path& path);
// All ranks of a master file, by rank.
std::vector<Trace> read_trace_master(const std::filesystem::path& path);

// A trace that cannot be written any more (a full disk) is given up, not the training.
template <class Write>
void keep_training(Log& log, Write write) {
  try {
    write();
  } catch (const SystemError& error) {
    log.warning(std::string(error.what()) + "; training continues without this trace");
  }
}

}  // namespace hetpipe
