// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "partitioner/schedule/schedule.h"
#include "tests/end-to-end/serial_place.h"

namespace hetpipe {

// One virtual worker of a played system, and how far it is.
struct SerialWorker {
  struct Due {  // an update, before anything else at its device
    SerialPlace* place;
    Minibatch minibatch;
  };

  SerialWorker(const SerialSystem& system, SerialLayers& layers, int the_number, Minibatch end);

  int number;
  SerialRules rules;
  std::deque<SerialPlace> places;  // [stage]
  Schedule actions;                // [device]
  std::vector<std::size_t> next;   // of them
  std::vector<std::optional<Due>> due;
  std::map<Minibatch, std::vector<SerialMicroBatch>> minibatches;
  std::map<Minibatch, std::pair<Wave, Label>> granted;  // last gate passed before, and its label
};
using SerialWorkers = std::deque<SerialWorker>;

// Where a stage's flat parameters lie in those of the whole model.
std::int64_t offset_of(const SerialStage& stage, const Model& model);
Floats slice_of(const SerialStage& stage, const Model& model, const Floats& whole);

// The sum of the gradients that an update takes at a place: s = first; s += next; ... over (virtual
// worker, stage, replica, layer), each parameter's from the stages that have it there. `only`: over
// that virtual worker's replicas. Nothing as long as a gradient is missing.
std::optional<Floats> sum_of_gradients(const SerialWorkers& workers, const SerialWorker* only,
                                       const SerialPlace& place, Minibatch p);

// Appends the snapshots whose waves are all in:
//   snapshot(L+1) = snapshot(L) + factor(0) * wave L of worker 0 + factor(1) * ...
// or a step towards that, or SerialServerStep's.
struct SerialServers {
  std::optional<SerialOuter> outer;
  std::optional<SerialServerStep> step;
  std::vector<std::vector<Floats>> slots{};  // by label, with the step
};
void take_snapshots(const SerialSystem& system, const SerialWorkers& workers,
                    SerialServers& servers, std::vector<Floats>& snapshots);
std::optional<SerialOuter> outer_of(const Plan& plan);
// The optimizer at the servers; nothing: it is not there.
std::optional<SerialServerStep> servers_of(const SerialSystem& system);

// The states of all labels, and the first virtual worker's history, once all has been played.
void collect_labels(const SerialSystem& system, const SerialWorkers& workers,
                    const std::vector<Floats>& snapshots, const SerialServers& servers,
                    SerialSystem::Result& result);

}  // namespace hetpipe
