// SPDX-License-Identifier: Apache-2.0
#include "launch/report/simulated_run.h"

#include <cmath>

#include "base/file.h"
#include "base/hash.h"
#include "base/index.h"
#include "partitioner/simulator/gantt.h"

namespace hetpipe {
namespace {

std::int64_t nanoseconds(double seconds) {
  return static_cast<std::int64_t>(std::llround(1e9 * seconds));
}

// What an action waited for, then what it computed.
void add_events(const SimulatedEvent& event, std::vector<TraceEvent>& events) {
  TraceEvent at;
  at.minibatch = event.action.minibatch;
  at.micro_batch = event.action.micro;
  at.chunk = event.action.chunk;
  const double busy = computes(event.action.kind) ? event.busy : 0;
  const double free = event.end - busy;
  if (computes(event.action.kind) && nanoseconds(free) > nanoseconds(event.start)) {
    at.kind = static_cast<char>(ActionKind::receive);
    at.start_ns = nanoseconds(event.start);
    at.end_ns = nanoseconds(free);
    events.push_back(at);
  }
  at.kind = static_cast<char>(event.action.kind);
  at.start_ns = nanoseconds(computes(event.action.kind) ? free : event.start);
  at.end_ns = nanoseconds(event.end);
  events.push_back(at);
}

}  // namespace

ReportedRun simulated_run(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          Simulation simulation, const std::string& plan_file,
                          std::vector<std::string> words) {
  ReportedRun run;
  run.name = run.plan_file = plan_file;
  run.plan = plan;
  run.cluster = cluster;
  run.profile = profile;
  run.simulated_by = std::move(words);
  for (std::size_t i = 0; i < simulation.stages.size(); ++i) {
    const SimulatedStage& stage = simulation.stages[i];
    Trace& trace = run.traces.emplace_back();
    trace.info = {static_cast<int>(i),  "simulated", to_string(stage.device),
                  stage.virtual_worker, stage.stage, stage.replica};
  }
  for (const SimulatedEvent& event : simulation.events) {
    add_events(event, run.traces[at(event.row)].events);
  }
  run.timeline = aligned(run.traces);
  run.simulation = std::move(simulation);
  const std::string text = read_file(plan_file);
  run.texts = {{"plan.toml", text, to_hex(hash_text(text))},
               {"cluster.toml", to_toml(cluster), to_hex(hash_text(to_toml(cluster)))},
               {"profile.toml", to_toml(profile), to_hex(hash_text(to_toml(profile)))}};
  return run;
}

}  // namespace hetpipe
