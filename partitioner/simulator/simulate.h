// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "partitioner/schedule/schedule.h"
#include "partitioner/simulator/replayed.h"

// Simulates the lowered schedules of all virtual workers of a plan with the profile's times: no
// randomness, no clock, the same answer everywhere.
//
// Rules: a stage does its actions in order. A message leaves when its tensor is ready, does not
// block the sender, and arrives after latency + bytes / bandwidth; messages of one directed pair of
// devices go one after the other, and so do, over emulated links, those between one server and
// other nodes. A wave counts when all its stages' parts are in. The gate before the last minibatch
// of wave w waits for wave w - 1 - D of every virtual worker (and asks: one latency there and
// back); the snapshot, asked for ahead, leaves as soon as it is complete, front stages first. With
// pull = "newest" its label is what is complete at the moment of the answer, and the stages ask for
// it when they know that. Of asynchronous training the gate waits for the own wave w - 1 alone.
namespace hetpipe {

class CostTable;
class Durations;
struct SimulationMemory;

struct SimulationRequest {
  // Of each virtual worker; absent: enough for a steady window (one after the other for flushes).
  std::optional<int> minibatches;
  std::uint64_t seed = 0;  // of the jitter
  double jitter = 0;       // relative standard deviation of every compute time
  bool keep_events = false;
  bool stages = true;   // what each of them does; none without
  bool ledgers = true;  // of every stage's memory; 0 without
  bool exchanges =
      true;  // virtual workers push and pull; without: the pace that they cannot exceed
  std::int64_t most_rates = 0;  // of messages on shared links (Simulation::rates); 0: any number
  // Recorded times (replay.h), of as many minibatches unless others are asked for; may be null.
  const Durations* durations = nullptr;
  // Of the same cluster and profile and of the plan's updates; null: worked out anew.
  CostTable* costs = nullptr;
  SimulationMemory* memory = nullptr;  // null: its own
};

struct SimulatedStage {
  int virtual_worker = 0;
  int stage = 0;
  int replica = 0;
  DeviceName device;
  double busy_seconds = 0;   // computing, within the window
  double busy = 0;           // fractions of the window, which add up to 1
  double communication = 0;  // waiting while the message waited for was on the wire
  double bubble = 0;         // waiting for anything else
  std::int64_t memory = 0;   // bytes, the ledger's total
};

// One action of one device, in seconds from the start.
struct SimulatedEvent {
  int row = 0;  // in Simulation::stages
  Action action;
  double start = 0;
  double end = 0;
  double busy = 0;  // s of these, computing
  double wire = 0;  // s of these, waiting while what is waited for is on the wire
};

struct Simulation {
  double throughput = 0;               // samples/s of all virtual workers together
  double iteration_seconds = 0;        // for one minibatch of every virtual worker
  int global_batch = 0;                // samples of one minibatch of every virtual worker
  double window_seconds = 0;           // the part that was looked at
  double bytes_between_nodes = 0;      // parameters and gradients that crossed nodes, per iteration
  double label_age = 0;                // waves that labels lack beyond those of D = 0, on average
  std::int64_t actions = 0;            // that were played
  std::int64_t rates = 0;              // of messages on shared links that were worked out
  std::vector<SimulatedStage> stages;  // by virtual worker, stage, replica
  std::vector<SimulatedEvent> events;  // where they were asked for, in order of their starts
  // Where events were asked for, of parameter servers: [label] when all waves below it are in (0 of
  // asynchronous training); and, where the label is the newest there is, [virtual worker][wave - 1]
  // when its gate was decided.
  std::vector<double> complete;
  std::vector<std::vector<double>> gates;
  std::optional<Replayed> replayed{};  // where recorded times were given
};

// UserError if the plan does not match cluster, profile or recorded times. TooManyRates (engine.h)
// if most_rates do not suffice.
Simulation simulate(const Plan& plan, const Cluster& cluster, const Profile& profile,
                    const SimulationRequest& request = {});

}  // namespace hetpipe
