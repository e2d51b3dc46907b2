// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "partitioner/plan/plan.h"
#include "partitioner/plan/system.h"
#include "partitioner/profile/profile.h"
#include "partitioner/schedule/wave_rules.h"
#include "partitioner/simulator/network.h"
#include "partitioner/simulator/plan_workers.h"

// Pushes and pulls of parameter servers under Wave Synchronous Parallel (arXiv 2005.14038; exact
// rules in docs/wsp.md). A wave counts when all parts of all stages of all virtual workers are in.
// The gate before the last minibatch of wave w needs label w - D: all waves below it. Every stage
// has asked for its part ahead, so it leaves as soon as the label is complete; stage 0 asks at the
// gate as well, one latency there and back, and its answer does not come before that.
// With pull = "newest" the answer names the newest label that is complete then, so a stage can ask
// for its part only when it knows that. Of asynchronous training the gate waits for the virtual
// worker's own push of the wave before, and for nobody else.
// Where the servers have the optimizer (docs/server-step.md), a label is complete when the largest
// shard has made its step.
namespace hetpipe {

// When a gate was decided at the server that keeps the clock: `there` after the operation began,
// and not before what it asks about.
struct GateMark {
  int process = 0;
  std::int64_t op = -1;
  double there = 0;  // s
};

class ServerTraffic {
 public:
  ServerTraffic(const Plan& plan, SyncRule sync, const WaveRules& rules, const Profile& profile,
                std::span<const PlanProcess> processes, Network& network, EngineJob& job);

  // Of the wave that the minibatch ends, or at whose gate it stands.
  void push(EngineJob& job, int process, Minibatch minibatch) const;
  void pull(EngineJob& job, int process, Minibatch minibatch);

  // For pulls whose times were recorded (replay.h), before any push.
  void note_pushes(std::span<const PlanProcess> processes, EngineJob& job);
  void pull_recorded(EngineJob& job, int process, Minibatch minibatch, double seconds);

  double bytes_between_nodes() const { return bytes_between_nodes_; }  // per wave

  // [label] the signal that all waves below it are in; -1: of label 0, and of asynchronous
  // training.
  const std::vector<int>& complete() const { return complete_; }
  // [virtual worker][wave - 1] where the label is not the bound's; else empty.
  std::vector<std::vector<GateMark>> take_gates() { return std::move(gates_); }

 private:
  // What a process has on one shard.
  struct Part {
    int push_route = 0;
    int pull_route = 0;
    double push_bytes = 0;
    double pull_bytes = 0;
    double there = 0;  // latencies
    double back = 0;
  };
  bool pushes(const PlanProcess& process, Label label) const;
  void add_labels(std::span<const PlanProcess> processes, EngineJob& job);
  void add_answers(std::span<const PlanProcess> processes, Label label, EngineJob& job);
  void add_own_waves(std::span<const PlanProcess> processes, EngineJob& job);
  int arrival_of(int process, Wave wave) const;
  void pull_newest(EngineJob& job, int process, Wave wave);

  SyncRule sync_;
  WaveRules rules_;
  bool newest_;                           // the label is decided when it is asked for
  std::vector<std::vector<Part>> parts_;  // [process]
  std::vector<bool> front_;               // [process] it stands at the gate
  std::vector<int> asks_for_;             // [process] virtual worker, of its first replica; or -1
  std::vector<std::vector<GateMark>> gates_;
  std::vector<int> worker_;    // [process]
  double step_seconds_ = 0;    // of the servers' own optimizer
  std::vector<int> complete_;  // [label] signals
  std::vector<int> arrived_;   // [label] signals: its waves are in; complete_ but for the step
  // [virtual worker][wave] signals, of asynchronous training: it is in; the labels have none.
  std::vector<std::vector<int>> own_;
  std::vector<int> pushed_;                 // [label] signals: all of its pushes have left
  std::vector<std::vector<int>> answered_;  // [label][process] signals; -1: nothing to wait for
  double bytes_between_nodes_ = 0;
};

}  // namespace hetpipe
