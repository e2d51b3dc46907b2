// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "kernels/element.h"
#include "kernels/shape.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "partitioner/schedule/periodic.h"
#include "partitioner/schedule/wave_rules.h"
#include "runtime/data/dataset.h"
#include "runtime/data/mix_rules.h"
#include "runtime/data/sampler.h"
#include "runtime/model/model.h"
#include "runtime/model/zoo.h"
#include "runtime/monitoring/monitor.h"
#include "runtime/pipeline/optimizer.h"
#include "runtime/transport/nccl_module.h"

namespace hetpipe {

// How far a training is, counted over all its runs: each with a plan of its own, so no number of
// waves says it.
struct Counts {
  std::int64_t minibatches = 0;         // of all virtual workers
  std::int64_t worker_minibatches = 0;  // of a virtual worker; of the one with most
  std::int64_t updates = 0;             // of each optimizer: one for a minibatch, or for a wave
};
constexpr auto fields_of(Type<Counts>) {
  return fields<&Counts::minibatches, &Counts::worker_minibatches, &Counts::updates>;
}

// Where a run starts from: nothing, or a checkpoint.
struct StartingPoint {
  std::string checkpoint;  // file; empty: a fresh start
  Label label = 0;
  std::int64_t consumed = 0;  // samples
  // Bit for bit as if it had not stopped; where the pipelines were empty last. Otherwise they are
  // empty here, and origin is the label itself.
  bool exact = false;
  int inside = 0;  // minibatches of the wave behind the label that each virtual worker has done
  Label origin_label = 0;
  std::int64_t origin_consumed = 0;
  Counts origin_counts{};

  static StartingPoint empty_pipelines(std::string checkpoint, Label label, std::int64_t consumed,
                                       const Counts& counts) {
    return {std::move(checkpoint), label, consumed, false, 0, label, consumed, counts};
  }
};
constexpr auto fields_of(Type<StartingPoint>) {
  return fields<&StartingPoint::checkpoint, &StartingPoint::label, &StartingPoint::consumed,
                &StartingPoint::exact, &StartingPoint::inside, &StartingPoint::origin_label,
                &StartingPoint::origin_consumed, &StartingPoint::origin_counts>;
}

// Of a run whose clock is simulated: what its times are simulated of.
struct SimulatedTime {
  Plan plan;
  Cluster cluster;
  Profile profile;
  std::string of;  // the file of another plan than the run's; empty: its own
};
constexpr auto fields_of(Type<SimulatedTime>) {
  return fields<&SimulatedTime::plan, &SimulatedTime::cluster, &SimulatedTime::profile,
                &SimulatedTime::of>;
}

// Of a stage's own steps until the servers' ones are there (docs/server-step.md).
inline constexpr double kStageRate = 0.05;

// One training, the same value on every rank.
struct TrainJob {
  Plan plan;
  std::optional<Cluster> cluster;  // without it nothing is emulated
  bool on_allocation = false;      // its nodes are the hosts of the ranks, some may have no role
  std::optional<Profile> profile;  // of the model, where devices are emulated
  std::optional<SimulatedTime> time{};  // absent: real arithmetic in real time

  ModelChoice model;
  Shape sample;  // (H, W, C)
  int classes = 0;
  std::string vocabulary;                // as Dataset's
  std::vector<std::string> class_names;  // likewise
  std::int64_t dataset_size = 0;
  std::int64_t test_size = 0;
  std::uint64_t dataset_fingerprint = 0;
  std::uint64_t test_fingerprint = 0;

  OptimizerOptions optimizer;
  double stage_rate = kStageRate;  // of the stages, where the servers have the optimizer
  double label_smoothing = 0;
  MixRules mixes;
  std::optional<double> target_accuracy;  // on the test samples, at which the run stops
  std::uint64_t seed = 1;
  bool shuffle = true;            // false: samples in the order of the data set
  std::int64_t end_position = 0;  // samples of the whole training, those before a resume too
  int evaluate_every = 0;         // waves, and at the end of every epoch; 0: only then
  int checkpoint_every = 0;       // likewise
  int log_every = 1;              // waves: of them one has a line, the first and the last too
  int rehearse_preemption = 0;    // waves after which the run stops as on request; 0: never
  double notice_seconds = 0;      // from a request to stop until the run is ended; 0: unknown
  StartingPoint start;

  std::string device = "cpu";           // of every worker, or "auto"
  std::string transport_path = "auto";  // of path_named
  int nccl_blocks = kNcclBlocks;        // that a link of NCCL may occupy on a card
  int threads = 1;
  int data_threads = 1;  // of each rank, which read and decode samples
  int run_ahead = 1;     // WorkQueue's pieces, on devices that work beside the host
  double timeout_seconds = 60;
  std::string checkpoint_folder;  // empty: none are written
  int keep_checkpoints = 0;       // the newest so many; 0: all
  bool exact_checkpoints = true;  // write what a bit-identical continuation needs
  std::uint64_t build = 0;        // hash of the program: such a continuation needs the same,
  std::uint64_t recipe = 0;       // and of the options that training follows
  std::string trace_folder;       // empty: no trace
  MonitoredFiles monitored{};     // written by rank 0

  // Devices and links are slowed down to those of the cluster.
  bool emulates() const { return cluster && !time; }
};
constexpr auto fields_of(Type<TrainJob>) {
  return fields<&TrainJob::plan, &TrainJob::cluster, &TrainJob::on_allocation, &TrainJob::profile,
                &TrainJob::time, &TrainJob::model, &TrainJob::sample, &TrainJob::classes,
                &TrainJob::vocabulary, &TrainJob::class_names, &TrainJob::dataset_size,
                &TrainJob::test_size, &TrainJob::dataset_fingerprint, &TrainJob::test_fingerprint,
                &TrainJob::optimizer, &TrainJob::stage_rate, &TrainJob::label_smoothing,
                &TrainJob::mixes, &TrainJob::target_accuracy, &TrainJob::seed, &TrainJob::shuffle,
                &TrainJob::end_position, &TrainJob::evaluate_every, &TrainJob::checkpoint_every,
                &TrainJob::log_every, &TrainJob::rehearse_preemption, &TrainJob::notice_seconds,
                &TrainJob::start, &TrainJob::device, &TrainJob::transport_path,
                &TrainJob::nccl_blocks, &TrainJob::threads, &TrainJob::data_threads,
                &TrainJob::run_ahead, &TrainJob::timeout_seconds, &TrainJob::checkpoint_folder,
                &TrainJob::keep_checkpoints, &TrainJob::exact_checkpoints, &TrainJob::build,
                &TrainJob::recipe, &TrainJob::trace_folder, &TrainJob::monitored>;
}

using OpenData = std::function<Dataset(Split, Parts)>;

// What follows from a job, for every rank alike.
Model make_model_of(const TrainJob& job);
Sampler make_sampler(const TrainJob& job);
WaveRules make_wave_rules(const TrainJob& job, const Sampler& sampler);
// What the job's training has done when all waves below the label are in.
Counts counts_at(const TrainJob& job, const Sampler& sampler, const WaveRules& rules, Label label);

// A hash of all that decides what a plan computes, its predictions left out.
std::uint64_t plan_hash(const Plan& plan);

// The actions of a virtual worker's whole run but for evaluations, by position in its pipeline:
// generated by the plan's schedule, lowered for its synchronisation.
PeriodicSchedule worker_schedule(const TrainJob& job, const WaveRules& rules, VirtualWorkerId vw);

// Updates go to parameter servers wave by wave; otherwise gradients are added up before each.
bool has_waves(const Plan& plan);
bool makes_outer_steps(const Plan& plan);  // its servers, after each round
// Its servers run the plan's optimizer (docs/server-step.md), the stages plain SGD.
bool optimizer_at_servers(const Plan& plan);
// What runs at the stages, or the job's optimizer itself.
OptimizerOptions optimizer_of_stages(const TrainJob& job);
// The state of an optimizer at the stages, and of the servers' own steps, as checkpoints name it.
std::vector<std::string> slots_of_stages(const TrainJob& job);
std::vector<std::string> slots_of_servers(const TrainJob& job);
// How far ahead of the sum of their steps servers are, in steps: as far as a minibatch misses those
// of the others in its own pipeline.
double steps_ahead(const Plan& plan);
// Of the numbers of a push.
ElementType push_type(const Plan& plan);

// What training cannot play though a plan may say it, as the user's problems.
void check_playable(const Plan& plan, Problems& problems);

}  // namespace hetpipe
