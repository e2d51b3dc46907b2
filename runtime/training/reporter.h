// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/store/trace.h"
#include "runtime/sync/stop_forecast.h"
#include "runtime/training/evaluations.h"
#include "runtime/training/job.h"
#include "runtime/training/live_status.h"
#include "runtime/training/loss_watch.h"
#include "runtime/training/messages.h"
#include "runtime/training/roles.h"
#include "runtime/training/slow_ranks.h"
#include "runtime/training/stop.h"

namespace hetpipe {

// Rank 0's reporting: receives every rank's reports, prints one line per wave, evaluations and
// checkpoints as they arrive, and keeps what the summary needs. Decides nothing.
class Reporter {
 public:
  // `places`: of the ranks. `trace`: where the per-wave metrics go; may be null.
  Reporter(const TrainJob& job, const WaveRules& rules, const Sampler& sampler, const Roles& roles,
           std::vector<SlowRanks::Place> places, RankService& service, Log& log,
           TraceWriter* trace);

  void started(Minibatch p);                         // of this rank: the live progress line
  void stopping(Label label, const StopWanted& by);  // the run ends there, as the rules say now
  void ended(const std::string& exit, ExitCode code);
  bool complete() const;
  std::string waiting_for() const;
  bool target_reached() const { return outcome_.target.has_value(); }
  bool rehearsal_due() const;  // of a preemption

  struct Evaluation {
    Label label = 0;
    std::int64_t samples = 0;  // of the whole training up to the label
    double seconds = 0;        // of this run until the label was complete, without evaluations
    double loss = 0;
    std::optional<double> accuracy;  // where classes are predicted
  };
  struct Outcome {
    std::vector<RankReport> ranks;
    double seconds = 0;             // from the first wave's start to the last report
    double evaluation_seconds = 0;  // of these, of the rank that took longest
    std::int64_t samples = 0;
    Minibatch staleness_min = 0;  // over all minibatches
    Minibatch staleness_max = 0;
    std::vector<Evaluation> evaluations;
    std::optional<Evaluation> target{};  // the first that reached the job's target
    std::optional<double> test_loss;
    std::optional<double> test_accuracy;
    std::string checkpoint;          // the newest
    std::string not_written{};       // why the last one could not be written ...
    ExitCode code = ExitCode::done;  // ... and what the run ends with therefore
    std::optional<Label> stopped{};  // before its end, at this label ...
    bool stopped_at_target = false;  // ... since the target was reached, not on request

    double training_seconds() const;  // the rest
    double throughput() const;        // samples/s of training
  };
  const Outcome& outcome() const { return outcome_; }

 private:
  // By virtual worker and replica of its last stage: added up in their order.
  using LossSums = std::map<std::pair<int, int>, double>;
  struct WaveSum {
    int reports = 0;
    std::int64_t samples = 0;
    std::int64_t labels = 0;
    std::int64_t correct = 0;
    LossSums loss_sums;
    std::vector<std::optional<double>> computing;  // seconds per sample, by rank
    double samples_per_second = 0;
    double elapsed = 0;
    double until = 0;      // seconds of this run until the last push ...
    double evaluated = 0;  // ... and of these the evaluations of the rank that took longest
    double server_wait = 0;
    double learning_rate = 0;
    std::int64_t step = 0;  // minibatches of each virtual worker so far
    Minibatch staleness_min = 0;
    Minibatch staleness_max = 0;
  };
  struct EvaluationSum {
    std::int64_t samples = 0;
    std::int64_t labels = 0;
    std::int64_t correct = 0;
    LossSums loss_sums;
  };
  void on_wave(Rank from, const WaveReport& report);
  void on_evaluation(const EvaluationReport& report);
  void finish_evaluations();
  bool evaluation_is_to_come() const;
  void finish_evaluation(Label label, const EvaluationSum& sum);
  void on_checkpoint_failed(const CheckpointFailed& failed);
  void print_waves();
  void print_wave(Wave wave, const WaveSum& sum);
  void watch_paces(Wave wave, const WaveSum& sum);
  std::string slow_text() const;  // "  slow: rank 3 (4.9x)"
  void check_notice();
  std::string newest_checkpoint_text() const;
  int expected_reports(Wave wave) const;
  std::size_t expected_evaluations() const;  // of one label

  const TrainJob& job_;
  const WaveRules& rules_;
  const Sampler& sampler_;
  const Roles& roles_;
  SlowRanks slow_ranks_;
  StopForecast stop_forecast_;
  bool notice_checked_ = false;
  RankService& service_;
  Log& log_;
  TraceWriter* trace_;
  std::int64_t total_samples_ = 0;
  LossWatch loss_watch_;
  bool started_ = false;
  std::int64_t start_ns_;  // of the first wave
  std::int64_t last_progress_ns_ = 0;
  Wave next_wave_;
  std::map<Wave, WaveSum> waves_;
  std::map<int, double> trained_;          // by rank
  std::map<Label, double> label_seconds_;  // when it was complete, as Evaluation has it
  double last_label_seconds_ = 0;
  std::map<Label, EvaluationSum> evaluations_;
  Evaluations planned_evaluations_;
  std::optional<Label> next_evaluation_;  // that is not done
  std::size_t ranks_left_;
  bool last_checkpoint_ = false;
  Outcome outcome_;
  std::optional<LiveStatus> live_;  // where somebody may watch
};

// "90 % test accuracy after wave 12 ..."; whether and when the job's target was reached, if it has
// one.
std::string target_text(const TrainJob& job, const Reporter::Outcome& outcome);

// At the end: predicted against measured per stage, where the time went, totals.
std::string summary(const TrainJob& job, const Reporter::Outcome& outcome);

}  // namespace hetpipe
