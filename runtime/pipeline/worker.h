// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "partitioner/schedule/schedule.h"
#include "partitioner/schedule/wave_rules.h"
#include "runtime/data/prefetch.h"
#include "runtime/pipeline/local_weights.h"
#include "runtime/pipeline/optimizer.h"
#include "runtime/pipeline/pace.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/reports.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/stage_messages.h"
#include "runtime/pipeline/synchronizer.h"

namespace hetpipe {

// Modelled seconds of one minibatch on an emulated device; 0: not emulated.
struct StagePace {
  double forward = 0;
  double backward = 0;
  double update = 0;
  int minibatch = 0;  // samples that these are for; smaller minibatches take proportionally less
};

struct WorkerSetup {
  Neighbourhood neighbours;
  Rank reporter;
  StageActions actions;  // lowered, with evaluations
  StagePace pace;
  std::function<Batch(Minibatch)> training_batch;  // parts that this stage needs; keys always
  std::vector<std::int64_t> evaluation_batches;  // numbers of those that this virtual worker takes
  std::function<Batch(std::int64_t)> evaluation_batch;  // likewise
  std::function<void(const ActionRecord&)> record;      // may be empty
  std::function<void(Minibatch)> started;               // live progress; may be empty
};

// The executor: plays one stage's schedule, one action after another. It decides nothing about
// order; what it adds is where bytes lie and who waits for what.
class Worker {
 public:
  Worker(WorkerSetup setup, const WaveRules& rules, Stage& stage, LocalWeights& weights,
         Optimizer& optimizer, std::vector<float> initial_statistics, Synchronizer& synchronizer,
         RankService& service);

  // Returns what the rank did with its time, sent to the reporter as well.
  RankReport run();

 private:
  struct InFlight {
    Batch batch;
    Pass pass;
    std::shared_ptr<const WeightVersion> weights;
    Buffer gradient;
  };
  void forward(Minibatch p);
  void backward(Minibatch p);
  void update(Minibatch p);
  void receive(std::size_t action);
  void send(std::size_t action);
  void push(Minibatch p);
  void save_state(Wave wave, std::vector<float> statistics);
  void pull(Minibatch p);
  void evaluate(Minibatch p);
  void evaluate_batch(std::int64_t number, const StageSnapshot& snapshot, EvaluationReport& sum);
  std::int64_t bytes_moved() const;
  Label label_of(Minibatch p) const;  // of the weights that it runs with
  bool left_out(const Action& action) const;
  void post_ahead(std::size_t next);

  void load(Pass& pass, const Batch& batch);
  void settle(const std::string& what);
  void note_loss(Minibatch p, const Pass& pass);
  [[noreturn]] void fail_numerically(Minibatch p, const Pass& pass, const float* weights);
  [[noreturn]] void look_again(Minibatch p);
  double read_losses(const Pass& pass, std::int64_t& correct);
  double modelled(double seconds, std::int64_t samples) const;
  std::string doing(ActionKind kind, Minibatch p) const;

  WorkerSetup setup_;
  const WaveRules& rules_;
  Stage& stage_;
  LocalWeights& weights_;
  Optimizer& optimizer_;
  Buffer statistics_;
  Synchronizer& synchronizer_;
  RankService& service_;
  Pace pace_;
  RankReport report_;
  StageMessages messages_;

  std::map<Minibatch, InFlight> in_flight_;
  std::map<Wave, std::vector<float>> wave_statistics_;
  std::optional<StageSnapshot> evaluated_;  // the gate that follows may want the same label
  Label label_;                             // of the weights in use
  Label announced_label_ = 0;               // that came with the newest activation
  std::int64_t last_report_ns_ = 0;
  WaveReport wave_;
};

}  // namespace hetpipe
