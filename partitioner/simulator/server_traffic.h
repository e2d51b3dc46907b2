// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
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
// Asynchronous training has no gate: a stage asks for what is there one wave ahead, and waits for
// that at the next.
namespace hetpipe {

class ServerTraffic {
 public:
  ServerTraffic(const Plan& plan, SyncRule sync, const WaveRules& rules, const Profile& profile,
                std::span<const PlanProcess> processes, Network& network, EngineJob& job);

  // Of the wave that the minibatch ends, or at whose gate it stands.
  void push(EngineJob& job, int process, Minibatch minibatch) const;
  void pull(EngineJob& job, int process, Minibatch minibatch);

  double bytes_between_nodes() const { return bytes_between_nodes_; }  // per wave

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
  void add_labels(std::span<const PlanProcess> processes, EngineJob& job);

  SyncRule sync_;
  WaveRules rules_;
  std::vector<std::vector<Part>> parts_;    // [process]
  std::vector<bool> front_;                 // [process] it stands at the gate
  std::vector<int> complete_;               // [label] signals
  std::vector<std::vector<int>> answered_;  // [label][process] signals; -1: nothing to wait for
  double bytes_between_nodes_ = 0;
};

}  // namespace hetpipe
