// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "partitioner/plan/pipeline.h"
#include "partitioner/plan/plan.h"
#include "partitioner/schedule/generate.h"
#include "partitioner/simulator/network.h"
#include "partitioner/simulator/stage_times.h"

// Where the stages of a plan are, their costs there, and what moves between them: all that a
// job has before any action (plan_job.h).
namespace hetpipe {

// A device that works.
struct PlanProcess {
  int virtual_worker = 0;
  int position = 0;  // in the pipeline: the stage, or the device of an interleaved schedule
  int replica = 0;
  int replicas = 1;
  DeviceName device;
  const DeviceKind* kind = nullptr;
  std::vector<std::pair<int, int>> layers;  // first, one past the last; one per chunk
};

// How a schedule's actions take the micro-batches of a minibatch.
struct Passes {
  int actions = 1;   // F per minibatch: as many messages
  int forward = 1;   // micro-batches in one F
  int backward = 1;  // and in one B
};
Passes passes_of(ScheduleRule rule, int micro_batches);

// A message, or the piece of one that goes between one replica and another.
struct RoutedPiece {
  int route = -1;  // -1: within a device
  double bytes = 0;
  int to = 0;  // place in PlanWorker::places
};

// One replica of one stage.
struct StagePlace {
  ReplicaTimes times;
  int process = 0;
  int stage = 0;
  int replica = 0;
  std::vector<RoutedPiece> activations;  // to later stages
  std::vector<RoutedPiece> gradients;    // to earlier stages
  // Signals of the first micro-batch's messages, those of the others follow; -1: none comes.
  int activations_in = -1;
  int gradients_in = -1;
  // Tied weights (docs/wsp.md): to stages that use them, and their gradients to the one before.
  std::vector<RoutedPiece> tied_weights;
  std::vector<RoutedPiece> tied_gradients;
  // Signals of the first minibatch's, likewise.
  int tied_weights_in = -1;
  int tied_gradients_in = -1;
};

struct PlanWorker {
  Pipeline pipeline;
  std::vector<int> first_place;    // [stage], and one past the last
  std::vector<StagePlace> places;  // by stage, replica

  int first(int stage) const { return first_place[static_cast<std::size_t>(stage)]; }
  const StagePlace& place(int stage, int replica) const {
    return places[static_cast<std::size_t>(first(stage) + replica)];
  }
};

// The processes of a virtual worker are appended: by position, then by replica. Without their kinds
// of device.
void add_processes(const Plan& plan, VirtualWorkerId vw, ScheduleRule rule,
                   std::vector<PlanProcess>& processes);

// Likewise, with their kinds.
PlanWorker place_worker(const Plan& plan, VirtualWorkerId vw, ScheduleRule rule, CostTable& costs,
                        std::vector<PlanProcess>& processes);

// Adds the routes between the worker's devices to the network, and to its job a signal for every
// message that each place waits for: each consuming replica gets its samples from the replicas that
// hold them.
void connect_worker(PlanWorker& worker, const PlanVirtualWorker& planned, const Passes& passes,
                    int minibatches, CostTable& costs, std::span<const PlanProcess> processes,
                    Network& network);

}  // namespace hetpipe
