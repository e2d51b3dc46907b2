// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "partitioner/schedule/messages_ahead.h"
#include "partitioner/schedule/wave_rules.h"
#include "runtime/pipeline/compute_weights.h"
#include "runtime/pipeline/evaluator.h"
#include "runtime/pipeline/gradient_sums.h"
#include "runtime/pipeline/local_weights.h"
#include "runtime/pipeline/loss_scale.h"
#include "runtime/pipeline/non_finite_search.h"
#include "runtime/pipeline/optimizer.h"
#include "runtime/pipeline/pace.h"
#include "runtime/pipeline/pass_clock.h"
#include "runtime/pipeline/pass_weights.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/reports.h"
#include "runtime/pipeline/running_statistics.h"
#include "runtime/pipeline/sample_feed.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/stage_io.h"
#include "runtime/pipeline/stage_messages.h"
#include "runtime/pipeline/stage_squares.h"
#include "runtime/pipeline/synchronizer.h"
#include "runtime/pipeline/tied_weights.h"
#include "runtime/pipeline/trial_step.h"
#include "runtime/pipeline/wave_book.h"
#include "runtime/pipeline/weights_average.h"
#include "runtime/pipeline/work_queue.h"

namespace hetpipe {

struct WorkerSetup {
  WorkerPlace place;
  WeightPolicy policy;
  bool waves = true;  // updates go to parameter servers, wave by wave
  double ema = 0;  // decay of the average of the weights that evaluations are of; 0: of the weights
  std::vector<float> average{};   // that it starts with, where no server keeps it
  bool clip_globally = false;     // gradients, by their norm over all stages
  bool scaled = false;            // the loss: some device of the run computes in fp16
  LossScale::State loss_scale{};  // that it starts with
  bool flushed = false;           // the pipeline is flushed before each update
  int tied_ahead = 1;             // TiedWeights::Rule::ahead
  MessagesAhead messages_ahead{};
  bool split_backward = false;   // B makes the inputs' gradient, W the weights'
  std::vector<bool> recompute;   // by chunk: keeps its inputs, R makes the rest again
  int run_ahead = 1;             // of WorkQueue; 1 on an emulated device
  int servers_in_reach = 0;      // for the report
  std::vector<StagePace> paces;  // by chunk
  EventPlace evaluates = EventPlace::before_minibatch;
  ActionCursor::NextEvent evaluations;
  SampleSource samples;
  TestBatches test;
  std::function<void(const WaveReport&)> wave_done;
  std::function<void(const EvaluationReport&)> evaluated;  // where the rank has the loss
  std::function<void(const ActionRecord&)> record;         // may be empty
  std::function<void(Minibatch)> started;                  // live progress; may be empty
};

// The executor: runs one rank's actions, one after another. It decides nothing about order; what
// it adds is where bytes lie and who waits for what.
class Worker {
 public:
  // `chunks`: the stages of this rank. Weights, slots and statistics are flat, chunk after chunk.
  Worker(WorkerSetup setup, const WaveRules& rules, std::vector<Stage*> chunks,
         LocalWeights& weights, Optimizer& optimizer, std::vector<float> initial_statistics,
         Synchronizer& synchronizer, DeviceTransport& transport, RankService& service);

  // Does what the device and its host memory would do when they are used first, so that nothing
  // waits for the whole device later, and leaves no trace: weights, slots, statistics, random draws
  // and the place in the data are those of before.
  void warm_up(const StepSizes& sizes);
  // Returns what the rank did with its time.
  RankReport run();

 private:
  struct InFlight {                             // a minibatch
    std::vector<std::vector<HeldPass>> passes;  // [chunk][micro-batch]
    int forwards_left = 0;
    Minibatch seen = 0;            // own updates that its first F found
    std::optional<Label> label{};  // of the weights that it runs with
    std::optional<int> scale{};    // exponent of its loss's scale; set by its first B
  };

  void play(const Action& action);
  void forward(const Action& action);
  void forward(const Action& action, InFlight& flight, int micro);
  void drop_what_backward_does_not_need(const Action& action, Pass& pass);
  void all_forwarded(Minibatch p, const InFlight& flight);
  void recompute(const Action& action);
  void backward(const Action& action);
  void weight_gradient(const Action& action);
  void receive(const Action& action);
  void send(const Action& action);
  void push(const Action& action);
  void update(const Action& action);
  void take_out_scale(Minibatch p);
  bool overflowed(Minibatch p, const StageSquares::ByStage& squares_of_stages);
  void prefetch(Wave gate);
  void pull(Minibatch p);
  void evaluate(Minibatch p);
  void end_wave(Minibatch p);
  bool keeps_exact(Wave wave) const;
  void stop_inside();
  void save_state(Minibatch p);

  InFlight& flight_of(Minibatch p);
  std::vector<Pass*> passes_of(const Action& action, Payload side);
  Stage& chunk(const Action& action) { return *chunks_[static_cast<std::size_t>(action.chunk)]; }
  TiedWeights::Rule tied_rule() const;
  void add_up_tied(Minibatch p);
  std::vector<Buffer> foreign_for_evaluation(Label label, const Buffer& own);
  bool updates(Minibatch p) const;  // its U is a step of the optimizer
  bool ends_wave(Minibatch p) const;
  std::vector<float> download(const Buffer& buffer);
  std::int64_t bytes_moved() const;
  Label label_of(Minibatch p) const;
  bool left_out(const Action& action) const;

  void settle(const std::string& what);
  void note_loss(const Action& action, int micro, const Losses& losses,
                 const StageWeights* weights);
  void record(const Action& action, std::int64_t start_ns, std::int64_t bytes, Label before);
  std::string doing(const Action& action) const;

  WorkerSetup setup_;
  const WaveRules& rules_;
  std::vector<Stage*> chunks_;
  Device& device_;
  Stream& stream_;
  LocalWeights& weights_;
  Optimizer& optimizer_;
  PassWeights versions_;
  std::optional<WeightsAverage> average_;  // where no server keeps it
  Synchronizer& synchronizer_;
  RankService& service_;
  Pace pace_;
  RankReport report_;
  WaveBook wave_;
  WorkQueue ahead_;
  PassClock clock_;
  SampleFeed feed_;
  RunningStatistics statistics_;
  GradientSums gradients_;
  StageSquares squares_;
  StageMessages messages_;
  TiedWeights tied_;
  ComputeWeights compute_;
  NonFiniteSearch search_;
  Evaluator evaluator_;

  std::map<Minibatch, InFlight> in_flight_;
  std::optional<StageSnapshot> evaluated_;    // the gate that follows may want the same label
  std::optional<ExactWeights> exact_inside_;  // of a wave in which the run stops
  LossScale loss_scale_;                      // where the rank has the loss
  Label label_;                               // of the weights in use
  Label announced_label_ = 0;                 // that came with the newest activation
  Label evaluated_label_ = 0;                 // newest
  Wave requested_gate_ = 0;                   // whose label was requested ahead
};

}  // namespace hetpipe
