// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/monitoring/monitor.h"
#include "runtime/pipeline/reports.h"
#include "runtime/training/job.h"
#include "runtime/training/roles.h"
#include "runtime/training/slow_ranks.h"

namespace hetpipe {

// What the reporter has worked out of a wave that is complete.
struct WaveFigures {
  Label label = 0;           // with it
  std::int64_t samples = 0;  // of this run until its end
  double loss = 0;
  std::optional<double> accuracy{};
  double learning_rate = 0;
  double samples_per_second = 0;
  Minibatch staleness_min = 0;
  Minibatch staleness_max = 0;
  double seconds_left = 0;
};

// Passes what rank 0 is told on to those who watch the run from outside: fills in a RunStatus, and
// says what belongs on which curve.
class LiveStatus {
 public:
  // `samples`: that this run is to consume.
  LiveStatus(const TrainJob& job, const WaveRules& rules, const Sampler& sampler,
             std::int64_t samples, const Roles& roles, Log& log);

  void wave_reported(Rank from, const WaveReport& report);
  void wave_done(const WaveFigures& figures, const std::vector<SlowRanks::Slow>& slow);
  // `samples`: of the training up to the label.
  void evaluated(Label label, std::int64_t samples, double loss, std::optional<double> accuracy);
  void checkpoint_written(Label label, const std::string& path);
  void rank_done(Rank from, const RankReport& report);
  void stopping(Label label);
  void ended(const std::string& exit, ExitCode code);

 private:
  // Of a virtual worker's ranks together.
  struct Spent {
    double seconds = 0;
    WaitSeconds waited{};
  };
  std::vector<Scalar> curves_of(const WaveFigures& figures, const RunStatus& status);

  const WaveRules& rules_;
  std::int64_t start_samples_;
  bool draws_;                // curves
  std::vector<int> place_;    // of each rank among the status' ranks; -1: no worker
  std::vector<Spent> spent_;  // by virtual worker, until the newest complete wave
  std::vector<Wave> newest_;  // likewise, that any of its ranks has reported
  Monitor monitor_;
};

}  // namespace hetpipe
