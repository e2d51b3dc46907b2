// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "benchmarks/peer.h"
#include "benchmarks/training_step.h"

// What the tables cpu-step and gpu-step share: a training step of ours and one of PyTorch's
// (torch_step.py, a Peer), in turns.
namespace hetpipe::bench {

// "28x28x1" (H, W, C), or "1024" tokens.
Shape sample_named(const std::string& text);

// Of a sample's forward: what PyTorch's counter of flops counts.
double flops_in_products(const Model& model);

// torch_step.py, started as `command`, for this setting.
std::vector<std::string> peer_command(std::vector<std::string> command, const StepSetting& s);

double seconds_of(TrainingStep& step, int count);  // of so many steps, to the end of the last
double seconds_of(Peer& peer, int count);

// The peer is ready to train the same network: as many parameters, and as many flops in products,
// within a percent (it may leave a padded border out). SystemError where not.
void check_ready(Peer& peer, const Model& model);

// So many steps take about `turn_seconds`, 3 at least.
int steps_per_turn(double seconds_per_step, double turn_seconds);

struct InTurns {
  std::vector<double> ours, theirs;  // s per step, turn by turn
};
// Both sides are warm.
InTurns in_turns(TrainingStep& step, Peer& peer, int turns, double turn_seconds);

// Two tables: our layers by kind, and the peer's operators by its own profiler.
void print_where_a_step_goes(const StepSetting& s, const std::string& name,
                             const std::vector<std::string>& peer_command);

}  // namespace hetpipe::bench
