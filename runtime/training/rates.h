// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fields.h"
#include "runtime/training/job.h"

namespace hetpipe {

// Learning rates as options give them: positions and lengths in epochs.
struct RateOptions {
  std::optional<std::string> schedule{};  // absent: constant
  std::optional<double> warmup{};         // absent: 0
  std::optional<double> decay{};          // absent: 0.1
  std::vector<double> steps{};            // milestones, or ...
  std::optional<double> every{};          // ... each so many epochs
  std::optional<double> power{};          // absent: 1
  std::optional<double> final_rate{};     // absent: 0
};

constexpr auto fields_of(Type<RateOptions>) {
  return fields<&RateOptions::schedule, &RateOptions::warmup, &RateOptions::decay,
                &RateOptions::steps, &RateOptions::every, &RateOptions::power,
                &RateOptions::final_rate>;
}

constexpr double kSgdRate = 0.01;
constexpr double kAdamRate = 0.001;
constexpr double kDampedAdamRate = 0.0075;
constexpr double kDampedRmspropRate = 0.0025;
constexpr double kDampedMuonRate = 0.01;

// What training does where no option says otherwise.
struct UsualTraining {
  double rate = kSgdRate;
  int unseen_updates = 1;  // that may be pending without seeing each other, its own among them
  double momentum = 0.9;   // of sgd-momentum, muon
  double beta1 = 0.9;      // of adam, adamw, lamb
  double beta2 = 0.999;
  double alpha = 0.99;  // of rmsprop
  double damping = 0;
  int damped_directions = 1;
  std::optional<double> weight_decay{};  // absent: the optimizer's
  std::string schedule = "constant";     // of the rate
  double warmup = 0;                     // of the rate: a share of the training
  bool damped = false;                   // all of this
  bool lowered() const { return rate < kSgdRate && unseen_updates > 1; }
};
// Where weights are not predicted (usually_damps), adam, rmsprop and muon have what was found to
// lose least where updates do not see each other (docs/training.md, "Damped steps"). Their rates
// are of minibatches of 32. Gradients that virtual workers and replicas sum before an update make
// one minibatch: its rate grows with the root of its samples, up to four times, the most that was
// tried (benchmarks/results/2026-11-28-samples-to-target.md); likewise those that the servers'
// optimizer makes a step of, which are a wave of all virtual workers. Other parameter servers scale
// what is pushed instead (usual_scale).
//
// Otherwise the rate is kAdamRate with adam, adamw, lamb, rmsprop and muon, else kSgdRate. With
// sgd-momentum under WSP and ASP every virtual worker adds its own updates, and adds them late: N
// virtual workers that keep pace (D = 0) have up to U = Nm + (N - 1)(2 Nm - 1) minibatches' updates
// pending that do not see each other. Above U = 5 the rate is multiplied by (5 / U)^1.5 (to two
// digits), which keeps mlp and lenet learning up to U = 58 where the whole rate diverges
// (benchmarks/results/2026-11-22-default-rate.md). Staleness-aware rates: Zhang et al., arXiv
// 1511.05950, which divides by the staleness.
UsualTraining usual_training(const Plan& plan);

// The options, and the usual schedule and warm-up of a training of so many epochs where they say
// none.
RateOptions with_usual(RateOptions options, const UsualTraining& usual, double epochs);

// Options that the schedule does not use, or that it requires.
void check_rate_options(const RateOptions& options, Problems& problems);

// The same in minibatches of the job's virtual workers, of which each consumes one while all
// consume a round. The job must know its plan, its data, its end and where it starts from.
RateSchedule rate_schedule(const RateOptions& options, const TrainJob& job);

// What only shows against the job: a warm-up beyond the end, a final rate above the first one.
void check_rate_schedule(const RateOptions& options, const TrainJob& job, Problems& problems);

}  // namespace hetpipe
