// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/store/checkpoint.h"
#include "runtime/store/trace.h"
#include "runtime/training/job.h"
#include "runtime/training/rates.h"
#include "runtime/training/reporter.h"
#include "tests/end-to-end/serial_systems.h"
#include "tests/end-to-end/serial_wsp.h"

// One small training, described once, and the two ways to run it: pipelined, with every rank a
// thread, and serially.
namespace hetpipe {

struct Training {
  std::string model = "mlp";
  Shape sample{8, 8, 1};  // (T): tokens, each labelled
  int classes = 4;
  bool pixels = false;         // images are stored as bytes
  std::int64_t samples = 200;  // of the training set
  std::int64_t test_samples = 0;
  std::optional<Dataset> data{};  // absent: invented ones
  std::string device = "reference";
  int run_ahead = 2;                     // where it works beside the host
  std::optional<Precision> precision{};  // of a GPU or "offload"; absent: its usual one
  std::string transport_path = "auto";

  struct Worker {
    int minibatch = 8;
    std::vector<int> stage_ends{};  // one past the last layer of each stage but the last
    // Samples of a micro-batch that each replica takes, by stage; stages without an entry, or with
    // an empty one, are not replicated.
    std::vector<std::vector<int>> shares{};
    bool recompute = false;  // all stages
  };
  std::vector<Worker> workers{};
  // The plan's choices; without parameter servers where sync comes to all-reduce.
  std::string system = "hetpipe";
  std::string schedule{};
  std::string weights{};
  std::string sync{};
  int chunks = 1;  // stages per device, in turns: of an interleaved schedule
  int micro_batches = 1;
  int in_flight = 1;
  int distance = 0;
  std::string pull = "bound";
  std::string scale = "sum";
  int servers = 1;
  bool hosted = false;
  std::string placement = "default";

  SerialOptimizer optimizer{.rate = 0.05f};
  double ema = 0;               // of the average of the weights
  std::vector<RateOf> rates{};  // whose factors optimizer.factor_of has to be
  float label_smoothing = 0;
  MixRules mixes{};
  RateOptions rate{};  // whose rates optimizer.rate_of has to be
  double epochs = 1;
  std::uint64_t seed = 7;
  int evaluate_every = 0;
  std::optional<double> target_accuracy{};
  // Modelled seconds of a minibatch on each stage of a worker; empty: nothing is emulated.
  std::vector<double> paces{};
  bool simulated = false;          // the clock, in place of emulation
  bool parameters_travel = false;  // in simulated time: sums, pushes and pulls take some
  std::string push_precision = "fp32";
  int round = 1;            // of sync = "outer", whose steps are the plan's usual ones
  double stage_rate = 0.1;  // of sync = "server-step", where optimizer is the servers'
  std::function<double(Minibatch)> stage_rate_of{};  // instead, where it changes

  Minibatch wave() const { return Minibatch{in_flight} * round; }
};

// What is in a checkpoint, flat, in the order of the whole model's layouts.
SerialState state_of(const Checkpoint& checkpoint, const Model& model);
// The moving average of the weights that is in a checkpoint, likewise.
std::vector<float> average_of(const Checkpoint& checkpoint, const Model& model);

struct Trained {
  std::map<Label, Checkpoint> checkpoints;  // of every label but the first
  std::vector<Trace> traces;                // by rank
  Reporter::Outcome outcome;
  ExitCode code = ExitCode::done;
  std::string said;  // by the run

  Label end() const { return checkpoints.rbegin()->first; }
  // (virtual worker, minibatch) -> label of the weights of its F and B; fails the test where stages
  // or F and B differ.
  std::map<std::pair<int, Minibatch>, Label> labels() const;
  std::vector<MetricPoint> metric(const std::string& name) const;
};

// Where a training resumes.
struct From {
  Checkpoint checkpoint;
  bool exact = false;  // as if it had never stopped
  // Updates that each optimizer has made; absent: as many as the waves until there have
  // minibatches.
  std::optional<std::int64_t> updates{};
};

class Bench {
 public:
  explicit Bench(Training training);

  const Training& training() const { return training_; }
  const Model& model() const { return model_; }
  const Dataset& data() const { return train_; }
  const Dataset& test_data() const { return test_; }
  Device& device() const { return *device_; }

  // The pipelined run; fails the test when it throws. `from`: resumes there. `stop_wanted`: asked
  // by every rank, again and again: a signal to stop, once there is one.
  using StopWanted = std::function<std::optional<int>()>;
  Trained train(const std::optional<From>& from = std::nullopt,
                const StopWanted& stop_wanted = {}) const;
  TrainJob job_of() const { return job(std::nullopt, "unused"); }
  // Why the executor of today refuses the plan, if it does.
  std::optional<std::string> why_not_played() const;
  // The serial program of the same training under these labels (absent: pull "bound").
  SerialWsp::Result serial(const std::optional<From>& from = std::nullopt,
                           const SerialWsp::Granted& granted = {}) const;
  // The serial program of the training's system, under these labels (absent: pull "bound").
  SerialSystem::Result serial_system(const SerialWsp::Granted& granted = {}) const;
  // The same as a value: for what the training itself does not say.
  SerialSystem serial_program() const;

 private:
  std::vector<float> factors() const;  // what a virtual worker's push weighs
  TrainJob job(const std::optional<From>& from, const std::string& folder) const;

  Training training_;
  Model model_;
  Dataset train_;
  Dataset test_;
  std::unique_ptr<Device> device_;
};

// Bit for bit, at every label that both know; at least the last.
enum class StatisticsOf { every_label, last_label };
void expect_same(const Trained& pipelined, const SerialWsp::Result& serial, const Model& model,
                 StatisticsOf statistics = StatisticsOf::every_label);
void expect_same(const SerialState& one, const SerialState& other, const Model& model, Label label);
void expect_same(const Trained& one, const Trained& other, const Model& model);

// The checkpoints of `part`, from `first` to `last`, are those of `whole` at the same labels, the
// exact state included.
void expect_part_of(const Trained& part, const Trained& whole, Label first, Label last);

// Both runs of a training; they must agree.
void expect_trains_like_serial(const Training& training);
// The same by the program of all systems; training can play it.
void expect_trains_like_serial_system(const Training& training);
// Its training, continued from the checkpoints of these labels, ends as if it had never stopped.
void expect_continues_exactly(const Bench& bench, const std::vector<Label>& labels);

}  // namespace hetpipe
