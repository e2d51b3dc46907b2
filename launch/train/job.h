// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/shape.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "partitioner/schedule/schedule.h"
#include "partitioner/schedule/wave_rules.h"
#include "runtime/data/dataset.h"
#include "runtime/data/sampler.h"
#include "runtime/model/model.h"
#include "runtime/pipeline/optimizer.h"

namespace hetpipe {

// Where a run starts from: nothing, or a checkpoint.
struct StartingPoint {
  std::string checkpoint;  // file; empty: a fresh start
  Label label = 0;
  std::int64_t consumed = 0;  // samples
  // Bit for bit as if it had not stopped; where the pipelines were empty last. Otherwise they are
  // empty here, and origin is the label itself.
  bool exact = false;
  Label origin_label = 0;
  std::int64_t origin_consumed = 0;

  static StartingPoint empty_pipelines(std::string checkpoint, Label label, std::int64_t consumed) {
    return {std::move(checkpoint), label, consumed, false, label, consumed};
  }
};

// One training, the same value on every rank.
struct TrainJob {
  Plan plan;
  std::optional<Cluster> cluster;  // without it nothing is emulated
  std::optional<Profile> profile;  // of the model, where devices are emulated

  std::string model;
  Shape sample;  // (H, W, C)
  int classes = 0;
  std::int64_t dataset_size = 0;
  std::int64_t test_size = 0;
  std::uint64_t dataset_fingerprint = 0;
  std::uint64_t test_fingerprint = 0;

  OptimizerOptions optimizer;
  double label_smoothing = 0;
  std::optional<double> target_accuracy;  // on the test samples, at which the run stops
  std::uint64_t seed = 1;
  std::int64_t end_position = 0;  // samples of the whole training, those before a resume too
  int evaluate_every = 0;         // waves, and at the end of every epoch; 0: there alone
  int checkpoint_every = 0;       // likewise
  StartingPoint start;

  std::string device = "cpu";
  int threads = 1;
  double timeout_seconds = 60;
  std::string checkpoint_folder;  // empty: none are written
  int keep_checkpoints = 0;       // the newest so many; 0: all
  bool exact_checkpoints = true;  // write what a bit-identical continuation needs
  std::uint64_t build = 0;        // hash of the program: such a continuation needs the same
  std::string trace_folder;       // empty: no trace
};

using OpenData = std::function<Dataset(Split, Parts)>;

// What follows from a job, for every rank alike.
Model make_model_of(const TrainJob& job);
Sampler make_sampler(const TrainJob& job);
WaveRules make_wave_rules(const TrainJob& job, const Sampler& sampler);

// Labels beyond `after` at which something is due: every `every` waves (0: none of these), where an
// epoch's last sample is in, and the run's last one; ascending.
std::vector<Label> due_labels(const TrainJob& job, const WaveRules& rules, int every, Label after);

// Of the due labels, those at which every virtual worker passes a gate that rests on them, and the
// last one: there the test set is evaluated. `gate_minibatch` is the one before whose F a virtual
// worker does it.
std::vector<Label> evaluation_labels(const TrainJob& job, const WaveRules& rules);
Minibatch gate_minibatch(const WaveRules& rules, Label label);

// A hash of all that decides what a plan computes, its predictions left out.
std::uint64_t plan_hash(const Plan& plan);

// A stage's actions of a whole run: continuous 1F1B, lowered for WSP, with the evaluations put in.
StageActions stage_actions(const WaveRules& rules, VirtualWorkerId vw, int stages, StageId stage,
                           const std::vector<Label>& evaluations);

// What the executor of this release cannot play, as the user's problems: replicated stages,
// micro-batches, other systems.
void check_playable(const Plan& plan, Problems& problems);

}  // namespace hetpipe
