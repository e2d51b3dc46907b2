// SPDX-License-Identifier: Apache-2.0
#include "runtime/monitoring/monitor.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/fields_json.h"
#include "base/file.h"
#include "base/time.h"
#include "base/wall_clock.h"
#include "runtime/monitoring/prometheus.h"

namespace hetpipe {
namespace {

constexpr std::chrono::seconds kTurn{1};
constexpr std::int64_t kSignOfLife = 5'000'000'000;    // ns
constexpr std::int64_t kMetricsEvery = 5'000'000'000;  // ns
// What waits for room, or for a file system that hangs, is dropped beyond that.
constexpr std::size_t kMostRecords = std::size_t{4} << 20;  // bytes

}  // namespace

Monitor::Monitor(MonitoredFiles files, RunStatus start, Warn warn)
    : files_(std::move(files)),
      warn_(std::move(warn)),
      status_(std::move(start)),
      thread_([this] { write_until_over(); }) {}

Monitor::~Monitor() {
  {
    const std::lock_guard lock(mutex_);
    if (status_.state != kEnded) status_.state = kFailed;
    over_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Monitor::note(const std::function<void(RunStatus&)>& change) {
  const std::lock_guard lock(mutex_);
  change(status_);
  changed_ = true;
}

void Monitor::start_curves(std::int64_t step) {
  if (files_.tensorboard.empty()) return;
  const std::lock_guard lock(mutex_);
  records_ += start_record(wall_seconds(), step);
}

void Monitor::add_to_curves(std::int64_t step, const std::vector<Scalar>& scalars) {
  if (files_.tensorboard.empty()) return;
  const std::string record = scalars_record(wall_seconds(), step, scalars);
  const std::lock_guard lock(mutex_);
  if (records_.size() + record.size() <= kMostRecords) records_ += record;
}

void Monitor::write_until_over() {
  std::int64_t written = 0;          // the status ...
  std::int64_t metrics_written = 0;  // ... and the metrics, when; ns
  std::unique_lock lock(mutex_);
  for (bool last = false; !last;) {
    last = over_;
    const std::int64_t now = now_ns();
    const bool metrics_due = last || now - metrics_written >= kMetricsEvery;
    if (last || metrics_due || changed_ || now - written >= kSignOfLife || !records_.empty()) {
      changed_ = false;
      written = now;
      if (metrics_due) metrics_written = now;
      const RunStatus status = status_;
      const std::string records = std::exchange(records_, {});
      lock.unlock();
      write(status, records, metrics_due);
      lock.lock();
    }
    if (!last) wake_.wait_for(lock, kTurn, [this] { return over_; });
  }
}

void Monitor::write(RunStatus status, const std::string& records, bool metrics_due) {
  status.time = wall_seconds();
  if (!files_.status.empty()) {
    try_to(status_warned_,
           [&] { write_file(files_.status, to_json(status).dump(2) + "\n", Durable::no); });
  }
  if (metrics_due && !files_.metrics.empty()) {
    try_to(metrics_warned_,
           [&] { write_file(files_.metrics, prometheus_text(status), Durable::no); });
  }
  if (files_.tensorboard.empty()) return;
  unwritten_ += records;
  if (unwritten_.size() > kMostRecords) unwritten_.clear();
  try_to(events_warned_, [&] {
    if (!events_) events_.emplace(files_.tensorboard, status.started);
    events_->append(unwritten_);
    unwritten_.clear();
  });
}

void Monitor::try_to(bool& warned, const std::function<void()>& write) {
  try {
    write();
  } catch (const std::exception& error) {
    if (!std::exchange(warned, true)) {
      warn_(std::string(error.what()) + "; training continues, and this is tried again");
    }
  }
}

}  // namespace hetpipe
