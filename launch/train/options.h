// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/command/loss_options.h"
#include "launch/command/options.h"
#include "launch/command/sample_options.h"
#include "launch/plan/options.h"
#include "launch/train/simulated_clock.h"
#include "runtime/model/graph/import.h"
#include "runtime/model/zoo.h"
#include "runtime/pipeline/parameter_rules.h"
#include "runtime/training/rates.h"
#include "runtime/transport/nccl_module.h"

// All options of `hetpipe train`.
namespace hetpipe {

struct TrainOptions {
  std::optional<std::string> recipe;  // name or file; what it says is in the options below
  std::optional<std::string> plan;    // file; absent: planned at the start from `planning`
  PlanningOptions planning;           // its cluster may be "slurm" or "ranks": see Ground
  std::optional<std::string> pool;    // cluster file with their kinds and links
  std::optional<std::string> model;   // absent: the plan's or the profile's
  std::optional<std::string> init;    // file with its initial weights
  bool init_partial = false;
  std::vector<std::string> freeze;   // patterns of layers that are not trained
  std::string shuffle = "epochs";    // or "none"
  std::optional<std::string> data;   // set once read_options() is through
  std::optional<double> test_share;  // of data without test samples
  std::optional<std::string> output;
  // A checkpoint file, or "latest": the newest of `output`; "auto": that if there is one. As given
  // it may be a run directory.
  std::optional<std::string> resume;
  std::optional<std::string> run_folder;  // of the run that is resumed, where it left its options

  double epochs = 1;
  std::optional<double> learning_rate;  // absent: usual_training(plan)
  std::optional<double> stage_rate;     // absent: kStageRate
  std::optional<double> momentum;
  bool nesterov = false;
  std::vector<double> betas;             // two, or none: usual_training(plan)
  std::optional<double> nu;              // absent: 1
  std::optional<double> epsilon;         // absent: 1e-8
  std::optional<double> alpha;           // absent: usual_training(plan)
  std::optional<double> damping;         // of matrices' updates; absent: usual_training(plan)
  std::optional<int> damped_directions;  // likewise
  std::optional<double> weight_decay;    // absent: usual_training(plan), or the optimizer's
  std::optional<std::string> decay_of;   // absent: matrices if decay is decoupled, else all
  std::vector<std::string> rate_of;      // "PATTERN=FACTOR"
  RateOptions rate;
  std::optional<double> clip_norm;        // absent: nothing is clipped
  std::optional<std::string> clip_scope;  // absent: usual_clip_scope
  LossOptions loss;
  SampleOptions samples;
  std::optional<double> target_accuracy;
  std::int64_t seed = 1;

  std::string device = "auto";
  int threads = 1;
  int run_ahead = 2;
  std::string transport = "mpi";  // or "threads"
  std::string transport_path = "auto";
  int nccl_blocks = kNcclBlocks;
  double timeout = 60;  // s
  ClockOptions clock;

  int evaluate_every = 0;    // waves; 0: only at the end of every epoch
  int checkpoint_every = 0;  // waves; 0: only at the end of every epoch
  int keep = 0;              // checkpoints; 0: all
  int log_every = 1;         // waves
  bool exact = true;         // checkpoints hold what a bit-identical continuation needs
  bool trace = true;
  double notice = 0;                   // s from a request to stop to the end of the job; 0: unknown
  int rehearse_preemption = 0;         // waves after which the run stops as on request; 0: never
  int flight_recorder = 0;             // actions kept of each rank
  std::optional<std::string> metrics;  // file for Prometheus
  std::optional<std::string> tensorboard;  // folder of event files
  bool json = false;                       // the result on standard output, other text elsewhere
};

ModelChoice choice_of(const TrainOptions& options);  // without a name where none was given

// Whether the devices are those of this launch: --cluster slurm or --cluster ranks.
bool on_allocation(const TrainOptions& options);

// The factor of each of --rate-of. UserError of a word that is none.
std::vector<RateOf> rates_of_groups(const std::vector<std::string>& words);

// The table bound to `options`, which must outlive it.
OptionTable train_option_table(TrainOptions& options);

// What a plan is made by, where none is given: a momentum without an optimizer means sgd-momentum.
PlanningOptions planning_of(const TrainOptions& options);

// What no single row can check: options that need or exclude each other.
void check_train_options(const TrainOptions& options, Problems& problems);

}  // namespace hetpipe
