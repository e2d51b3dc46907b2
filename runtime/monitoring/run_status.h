// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"

// How far a training is, as rank 0 knows it: what its status file holds, from which `hetpipe watch`
// and the metrics for Prometheus are made. Plain values; docs/watching.md says what the keys mean.
namespace hetpipe {

// Seconds for which ranks stood still, by what they waited for.
struct WaitSeconds {
  double bubble = 0;    // a message that was not sent yet
  double transfer = 0;  // a message in transit
  double server = 0;    // parameter servers, or sums of gradients
  double data = 0;      // samples

  double sum() const { return bubble + transfer + server + data; }
  WaitSeconds& operator+=(const WaitSeconds& other);
};
constexpr auto fields_of(Type<WaitSeconds>) {
  return fields<&WaitSeconds::bubble, &WaitSeconds::transfer, &WaitSeconds::server,
                &WaitSeconds::data>;
}

// A worker rank, since this run started.
struct RankStatus {
  int rank = 0;
  std::string device{};  // "n0:1"
  int virtual_worker = 0;
  int stage = 0;
  int replica = 0;
  std::int64_t waves = 0;
  double seconds = 0;            // of training, without evaluations
  WaitSeconds waited{};          // of these
  std::int64_t peak_memory = 0;  // bytes of its device
  double slowdown = 1;           // against its own usual pace; above 1 where it was named as slow
};
constexpr auto fields_of(Type<RankStatus>) {
  return fields<&RankStatus::rank, &RankStatus::device, &RankStatus::virtual_worker,
                &RankStatus::stage, &RankStatus::replica, &RankStatus::waves, &RankStatus::seconds,
                &RankStatus::waited, &RankStatus::peak_memory, &RankStatus::slowdown>;
}

// A virtual worker. Waves and minibatches are counted over all runs of the training.
struct WorkerStatus {
  std::int64_t waves = 0;
  std::int64_t minibatches = 0;
  std::int64_t staleness_min = 0;  // of its newest wave: updates that its minibatches missed
  std::int64_t staleness_max = 0;
};
constexpr auto fields_of(Type<WorkerStatus>) {
  return fields<&WorkerStatus::waves, &WorkerStatus::minibatches, &WorkerStatus::staleness_min,
                &WorkerStatus::staleness_max>;
}

// "running", "stopping" (on request, or at its target), "ended" (see `exit`) or "failed".
inline constexpr const char* kRunning = "running";
inline constexpr const char* kStopping = "stopping";
inline constexpr const char* kEnded = "ended";
inline constexpr const char* kFailed = "failed";

// Times are seconds since 1970.
struct RunStatus {
  int format = 1;
  std::string state = kRunning;
  std::string exit;  // as in result.json, once it has ended
  int exit_code = 0;
  std::string run;  // its directory, as an absolute path
  std::string host;
  int process = 0;  // of rank 0
  double started = 0;
  double time = 0;  // when this was written

  std::string model;
  std::string system;
  std::string clock = "real";
  std::int64_t dataset_size = 0;
  std::int64_t start_samples = 0;  // of the training, consumed before this run
  std::int64_t samples = 0;        // with those of this run, of waves that are complete
  std::int64_t end_samples = 0;
  std::int64_t waves = 0;  // complete ones, of all virtual workers: the label
  std::int64_t end_waves = 0;

  // Of the newest complete wave; nothing before the first.
  std::optional<double> loss{};
  std::optional<double> accuracy{};
  std::optional<double> learning_rate{};
  std::optional<double> samples_per_second{};
  std::optional<double> seconds_left{};

  std::optional<double> test_loss{};
  std::optional<double> test_accuracy{};
  std::int64_t test_waves = 0;  // the label that was evaluated

  std::string checkpoint;  // the newest that this run wrote; empty: none yet
  std::int64_t checkpoint_waves = 0;
  double checkpoint_time = 0;

  std::vector<WorkerStatus> virtual_workers{};
  std::vector<RankStatus> ranks{};

  double epoch() const;  // a fraction
  bool is_over() const { return state == kEnded || state == kFailed; }
};
constexpr auto fields_of(Type<RunStatus>) {
  return fields<&RunStatus::format, &RunStatus::state, &RunStatus::exit, &RunStatus::exit_code,
                &RunStatus::run, &RunStatus::host, &RunStatus::process, &RunStatus::started,
                &RunStatus::time, &RunStatus::model, &RunStatus::system, &RunStatus::clock,
                &RunStatus::dataset_size, &RunStatus::start_samples, &RunStatus::samples,
                &RunStatus::end_samples, &RunStatus::waves, &RunStatus::end_waves, &RunStatus::loss,
                &RunStatus::accuracy, &RunStatus::learning_rate, &RunStatus::samples_per_second,
                &RunStatus::seconds_left, &RunStatus::test_loss, &RunStatus::test_accuracy,
                &RunStatus::test_waves, &RunStatus::checkpoint, &RunStatus::checkpoint_waves,
                &RunStatus::checkpoint_time, &RunStatus::virtual_workers, &RunStatus::ranks>;
}

// What a virtual worker's ranks waited for, together.
WaitSeconds waited_by(const RunStatus& status, int virtual_worker);

}  // namespace hetpipe
