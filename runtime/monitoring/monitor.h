// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/monitoring/event_file.h"
#include "runtime/monitoring/event_record.h"
#include "runtime/monitoring/run_status.h"

namespace hetpipe {

// Where others can watch a run. Empty: not there.
struct MonitoredFiles {
  std::string status{};       // JSON, of RunStatus
  std::string metrics{};      // for Prometheus
  std::string tensorboard{};  // folder of event files, which is there

  bool any() const { return !status.empty() || !metrics.empty() || !tensorboard.empty(); }
};
constexpr auto fields_of(Type<MonitoredFiles>) {
  return fields<&MonitoredFiles::status, &MonitoredFiles::metrics, &MonitoredFiles::tensorboard>;
}

// Writes what is known of a run to files, from a thread of its own: who reports only notes. The
// status is written once a second where it has changed and every five seconds as a sign of life,
// metrics every five seconds, both again at the end. A file that cannot be written is warned of
// once and tried again; the run goes on.
class Monitor {
 public:
  using Warn = std::function<void(const std::string&)>;  // by that thread

  Monitor(MonitoredFiles files, RunStatus start, Warn warn);
  ~Monitor();  // with the end; a run that was not said to have ended has failed
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  void note(const std::function<void(RunStatus&)>& change);
  // Of the curves, at a step. start: what files of earlier runs hold from there on is void.
  void start_curves(std::int64_t step);
  void add_to_curves(std::int64_t step, const std::vector<Scalar>& scalars);

 private:
  void write_until_over();
  void write(RunStatus status, const std::string& records, bool metrics_due);
  void try_to(bool& warned, const std::function<void()>& write);

  const MonitoredFiles files_;
  const Warn warn_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  RunStatus status_;
  bool changed_ = true;
  bool over_ = false;
  std::string records_;  // of the event file, to be written

  std::optional<EventFile> events_;  // these are the thread's own
  std::string unwritten_;            // records, since the file could not be written
  bool status_warned_ = false;
  bool metrics_warned_ = false;
  bool events_warned_ = false;
  std::thread thread_;
};

}  // namespace hetpipe
