// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/megatron.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/limits.h"
#include "partitioner/simulator/megatron_lowering.h"

namespace hetpipe {
namespace {

void check_runs(const Plan& plan) {
  const auto refuse = [](const std::string& what, const std::string& why, const std::string& then) {
    throw UserError("", what + " under runtime 'megatron-deepspeed' (" + why + "). " + then);
  };
  const ScheduleRule rule = composition(plan).schedule;
  if (!traits(rule).in_megatron) {
    refuse("schedule '" + std::string(to_string(rule)) + "'", "it knows only 1F1B with a flush",
           "Use system 'pipedream-flush'.");
  }
  if (plan.server) {
    refuse("a parameter server", "its replicas all-reduce", "Leave [parameter_server] out.");
  }
  const auto& first = plan.virtual_workers.front().stages;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    const auto& stages = plan.virtual_workers[vw].stages;
    bool equal = stages.size() == first.size();
    for (std::size_t k = 0; k < stages.size(); ++k) {
      equal = equal && stages[k].end_layer == first[k].end_layer;
      if (stages[k].devices.size() > 1) {
        refuse(format("several devices in stage %zu of virtual worker %zu", k, vw),
               "each replica is its own virtual worker there",
               "Write one virtual worker per replica.");
      }
    }
    if (!equal) {
      refuse(format("virtual worker %zu partitioned differently from virtual worker 0", vw),
             "a stage all-reduces with the same stage of the others",
             "Partition all of them alike.");
    }
  }
}

// Where the time of a process went, and its actions where they are asked for.
void add_row(Simulation& result, const MegatronJob& lowered, const EngineTimes& times,
             std::size_t process, bool keep_events) {
  const MegatronStage& stage = lowered.stages[process];
  SimulatedStage row;
  row.virtual_worker = stage.vw;
  row.stage = stage.k;
  row.device = stage.device;
  double communication = 0;
  const std::int64_t first = lowered.job.first_op(static_cast<int>(process));
  double to = 0;
  for (std::int64_t op = first; op < lowered.job.end[process]; ++op) {
    const MegatronOp& what = at(lowered.ops, op);
    const double from = to;
    to = at(times.end, op);
    if (what.doing == MegatronOp::Doing::computing) row.busy_seconds += to - from;
    if (what.doing == MegatronOp::Doing::communicating) communication += to - from;
    if (at(lowered.job.ops, op).kind == OpKind::wait) {
      const double moving = at(times.on_the_wire, at(lowered.job.ops, op).index);
      communication += std::max(0.0, to - std::clamp(moving, from, to));
    }
    if (!what.action) continue;
    ++result.actions;
    if (keep_events) {
      result.events.push_back({static_cast<int>(process), *what.action, from, to});
    }
  }
  row.busy = row.busy_seconds / result.window_seconds;
  row.communication = communication / result.window_seconds;
  row.bubble = std::max(0.0, 1 - row.busy - row.communication);
  result.stages.push_back(row);
}

}  // namespace

Simulation simulate_megatron(const Plan& plan, const Cluster& cluster, const Profile& profile,
                             const SimulationRequest& request, const MegatronConstants& constants) {
  check_plan(plan, "plan", &cluster, static_cast<int>(profile.layers.size()));
  check_runs(plan);
  const int iterations = request.minibatches.value_or(1);
  if (iterations < 1) {
    throw UserError("--minibatches",
                    format("%d (an iteration is one). Ask for 1 or more.", iterations));
  }
  // For each operation its action is kept as well.
  check_size(plan, request, iterations,
             2 * bytes_to_play(plan, composition(plan), request, iterations));
  const MegatronJob lowered = lower_megatron(plan, cluster, profile, iterations, constants);
  Engine engine;
  const EngineTimes& times = engine.play(lowered.job, {request.seed, request.jitter});

  Simulation result;
  for (const double end : times.end) result.window_seconds = std::max(result.window_seconds, end);
  check_takes_time(result.window_seconds);
  result.iteration_seconds = result.window_seconds / iterations;
  result.global_batch = static_cast<int>(plan.global_batch());
  result.throughput = result.global_batch / result.iteration_seconds;
  result.bytes_between_nodes = lowered.bytes_between_nodes;
  for (std::size_t process = 0; process < lowered.stages.size(); ++process) {
    add_row(result, lowered, times, process, request.keep_events);
    SimulatedStage& row = result.stages.back();
    if (!request.ledgers) continue;
    row.memory = stage_ledger(plan, cluster, profile, VirtualWorkerId{row.virtual_worker},
                              StageId{row.stage})
                     .total();
  }
  std::stable_sort(
      result.events.begin(), result.events.end(),
      [](const SimulatedEvent& a, const SimulatedEvent& b) { return a.start < b.start; });
  return result;
}

}  // namespace hetpipe
