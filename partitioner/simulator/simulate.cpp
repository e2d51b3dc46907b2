// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/simulate.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/engine.h"
#include "partitioner/simulator/limits.h"
#include "partitioner/simulator/megatron.h"
#include "partitioner/simulator/plan_job.h"
#include "partitioner/simulator/replay.h"
#include "partitioner/simulator/simulation_memory.h"

namespace hetpipe {
namespace {

constexpr int kMostAhead = 64;  // waves; beyond that a clock distance hardly differs from none
constexpr int kMostMinibatches = 48;  // with a flush, while it has not settled
constexpr int kJitteredMinibatches = 24;
constexpr double kPattern = 0.01;  // smaller changes are those of a pattern of several waves

// The part of a run that is looked at, in minibatches of each virtual worker; begin 0 is the start
// of the run.
struct Window {
  Minibatch begin = 0;
  Minibatch end = 0;
};

struct Run {
  const PlanJob& job;
  const EngineTimes& times;
  Minibatch wave = 1;    // minibatches of one
  bool bounded = false;  // nobody is more than D waves ahead
  std::optional<Replayed> replayed{};

  double completed(Label label) const {
    const int signal = job.complete[static_cast<std::size_t>(label)];
    return signal < 0 ? 0 : times.fired[static_cast<std::size_t>(signal)];
  }
  double at(const std::vector<std::int64_t>& marks, std::size_t process, Minibatch p) const {
    const std::size_t mark = process * static_cast<std::size_t>(job.minibatches);
    // One that has fewer than others has ended.
    while (p > 0 && marks[mark + static_cast<std::size_t>(p)] < 0) --p;
    return times.end[static_cast<std::size_t>(marks[mark + static_cast<std::size_t>(p)])];
  }
};

// In the memory that it is given, until the next one is played there.
Run play(const Plan& plan, const System& system, CostTable& costs, SimulationMemory& memory,
         const SimulationRequest& request, int minibatches) {
  // As many as the file has of each virtual worker, unless another number is asked for.
  const bool all = request.durations && minibatches == request.durations->minibatches();
  const std::optional<int> asked = all ? std::nullopt : std::optional(minibatches);
  check_size(plan, request, minibatches, bytes_to_play(plan, system, request, minibatches));
  std::optional<Replay> replay;
  if (request.durations) {
    replay.emplace(*request.durations, plan.virtual_workers.size(), asked);
  }
  memory.job =
      build_plan_job(plan, system, costs, memory.schedules, minibatches,
                     request.keep_events ? KeepActions::yes : KeepActions::no, request.exchanges,
                     replay ? &*replay : nullptr, std::move(memory.job));
  if (replay) replay->check_all_played();
  Run run{memory.job, memory.engine.play(memory.job.engine,
                                         {request.seed, request.jitter, request.most_rates})};
  run.wave = request.exchanges ? plan.wave_length() : plan.in_flight;
  run.bounded = traits(system.sync).bounded;
  if (!replay) return run;
  run.replayed = replay->replayed();
  for (const std::int64_t end : run.job.engine.end) {
    if (end > 0) {
      run.replayed->seconds =
          std::max(run.replayed->seconds, run.times.end[static_cast<std::size_t>(end) - 1]);
    }
  }
  return run;
}

// A schedule with a flush has settled once every device ends a minibatch at one and the same
// distance from the one before: then the state of all devices repeats, and so does everything after
// it, forever.
bool settled(const Run& run, Minibatch minibatch) {
  const double pace =
      run.at(run.job.updated, 0, minibatch) - run.at(run.job.updated, 0, minibatch - 1);
  for (std::size_t p = 0; p < run.job.processes.size(); ++p) {
    const double end = run.at(run.job.updated, p, minibatch);
    const double here = end - run.at(run.job.updated, p, minibatch - 1);
    if (std::abs(here - pace) > 1e-9 * end) return false;
  }
  return true;
}

// The last minibatch may differ: nothing that comes behind it is on the links.
std::optional<Window> settled(const Run& run) {
  const Minibatch last = run.job.minibatches - 1;
  for (Minibatch m = last; m >= std::max<Minibatch>(1, last - 1); --m) {
    if (settled(run, m)) return Window{m, m + 1};
  }
  return std::nullopt;
}

// Minibatches follow one another without a barrier: each device starts the next as soon as its own
// work is done.
Run play_flush(const Plan& plan, const System& system, CostTable& costs, SimulationMemory& memory,
               const SimulationRequest& request, Window& window) {
  int minibatches = request.minibatches.value_or(request.jitter > 0 ? kJitteredMinibatches : 3);
  for (;; minibatches *= 2) {
    Run run = play(plan, system, costs, memory, request, minibatches);
    const bool asked = request.minibatches || request.jitter > 0;
    const std::optional<Window> steady = asked ? std::nullopt : settled(run);
    const bool more = minibatches < kMostMinibatches &&
                      bytes_to_play(plan, system, request, 2 * minibatches) <= kMostSimulationBytes;
    if (!steady && !asked && more) continue;
    window = steady.value_or(Window{minibatches / 2, minibatches});
    return run;
  }
}

// The edges of a run are left out: waves that fill or drain the pipeline, and those that a faster
// virtual worker may be ahead.
Run play_continuous(const Plan& plan, const System& system, CostTable& costs,
                    SimulationMemory& memory, const SimulationRequest& request, Window& window) {
  const Minibatch wave = request.exchanges ? plan.wave_length() : plan.in_flight;
  std::size_t stages = 1;
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    stages = std::max(stages, vw.stages.size());
  }
  const Minibatch edge = static_cast<Minibatch>(stages) / wave + 1 +
                         (plan.server ? std::min(plan.server->clock_distance, kMostAhead) : 0);
  const Minibatch warm_up = edge + 2;
  const Minibatch steady = wave > 48 ? 4 : std::max<Minibatch>(8, 48 / wave);
  const Minibatch minibatches =
      request.minibatches ? *request.minibatches : (warm_up + steady + edge) * wave;
  const Minibatch waves = minibatches / wave;
  window = {waves > 1 ? wave : 0, minibatches};  // of a run that is shorter than a round: all of it
  if (waves > warm_up + edge) window = {warm_up * wave, (waves - edge) * wave};
  return play(plan, system, costs, memory, request, static_cast<int>(minibatches));
}

// A part of a run; what an operation has of it.
struct Moments {
  double start = 0;
  double end = 0;

  double of(double from, double to) const {
    return std::max(0.0, std::min(to, end) - std::max(from, start));
  }
};

// Seconds in which what the operation, of `from` to its end, waits for is on the wire.
double wire_seconds(const Run& run, std::size_t op_index, double from, const Moments& inside) {
  const double to = run.times.end[op_index];
  const Op& op = run.job.engine.ops[op_index];
  switch (op.kind) {
    case OpKind::wait:
      return inside.of(std::max(from, run.times.on_the_wire[static_cast<std::size_t>(op.index)]),
                       to);
    case OpKind::ask: {
      const EngineQuestion& question = run.job.engine.questions[static_cast<std::size_t>(op.index)];
      return inside.of(from, from + question.there) + inside.of(to - question.back, to);
    }
    case OpKind::send:
    case OpKind::stream:
      return inside.of(from, to);
    case OpKind::compute:
    case OpKind::arrive:
      break;
  }
  return 0;
}

// How much later a label is complete than the work that it holds is done.
double lag_of(const Run& run, Label label) {
  double done = 0;
  for (std::size_t p = 0; p < run.job.processes.size(); ++p) {
    done = std::max(done, run.at(run.job.computed, p, label * run.wave - 1));
  }
  return run.completed(label) - done;
}

// How much longer a wave takes once virtual workers are as far ahead as D lets them be. As long as
// they are not, labels lag more with every wave if the links cannot keep up.
double stretched(const Run& run, const Window& window, double wave_seconds) {
  if (!run.bounded || run.job.complete.empty()) return 1;
  const Label first = window.begin / run.wave + 1;
  const Label last = std::min<Label>(window.end / run.wave, std::ssize(run.job.complete) - 2);
  if (last <= first) return 1;
  const double grown = lag_of(run, last) - lag_of(run, first);
  const double more = grown / static_cast<double>(last - first) / wave_seconds;
  return more > kPattern ? 1 + more : 1;
}

// Seconds that the busiest device of the virtual worker (-1: of all) computes.
double most_computed(const Run& run, int virtual_worker) {
  double most = 0;
  for (std::size_t p = 0; p < run.job.processes.size(); ++p) {
    if (virtual_worker >= 0 && run.job.processes[p].virtual_worker != virtual_worker) continue;
    most = std::max(most, run.job.computing[p]);
  }
  return most;
}

// Seconds that it took the slowest stage of all to compute the minibatches of the window.
double slowest_stage(const Run& run, const std::vector<std::int64_t>& marks, const Window& window) {
  double most = 0;
  for (std::size_t p = 0; p < run.job.processes.size(); ++p) {
    if (run.job.processes[p].replica > 0) continue;
    const double from = window.begin == 0 ? 0 : run.at(marks, p, window.begin - 1);
    most = std::max(most, run.at(marks, p, window.end - 1) - from);
  }
  return most;
}

// What a device does between two moments. `stretch`: so much longer all of it takes, by waits for
// what is on the wire.
SimulatedStage looked_at(const Run& run, std::size_t index, const Moments& window, double stretch) {
  const PlanProcess& process = run.job.processes[index];
  SimulatedStage row;
  row.virtual_worker = process.virtual_worker;
  row.stage = process.position;
  row.replica = process.replica;
  row.device = process.device;
  double wire = 0;
  const EngineJob& job = run.job.engine;
  const auto first = static_cast<std::size_t>(job.first_op(static_cast<int>(index)));
  double to = 0;
  for (std::size_t i = first; i < static_cast<std::size_t>(job.end[index]); ++i) {
    const double from = to;
    to = run.times.end[i];
    if (to == from || to < window.start || from > window.end) continue;
    if (job.ops[i].kind == OpKind::compute) row.busy_seconds += window.of(from, to);
    wire += wire_seconds(run, i, from, window);
  }
  const double seconds = stretch * (window.end - window.start);
  wire += seconds - (window.end - window.start);
  row.busy = row.busy_seconds / seconds;
  row.communication = wire / seconds;
  row.bubble = std::max(0.0, 1 - row.busy - row.communication);
  return row;
}

std::vector<SimulatedEvent> events_of(const Run& run) {
  std::vector<SimulatedEvent> events;
  std::int64_t action = 0;
  for (std::size_t p = 0; p < run.job.processes.size(); ++p) {
    for (const std::int64_t last = run.job.recorded_end[p]; action < last; ++action) {
      const auto at = static_cast<std::size_t>(action);
      const auto first = static_cast<std::size_t>(run.job.first_op[at]);
      const auto end = static_cast<std::size_t>(action + 1 < last ? run.job.first_op[at + 1]
                                                                  : run.job.engine.end[p]);
      if (first == end) continue;  // nothing to do in this plan
      const auto process = static_cast<int>(p);
      SimulatedEvent event{process, run.job.recorded[at],
                           run.times.start(run.job.engine, process, run.job.first_op[at]),
                           run.times.end[end - 1]};
      double from = event.start;
      for (std::size_t i = first; i < end; from = run.times.end[i], ++i) {
        const double to = run.times.end[i];
        if (run.job.engine.ops[i].kind == OpKind::compute) event.busy += to - from;
        event.wire += wire_seconds(run, i, from, {from, to});
      }
      events.push_back(event);
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  return events;
}

std::vector<double> completed(const Run& run) {
  std::vector<double> times;
  for (Label label = 0; label < std::ssize(run.job.complete); ++label) {
    times.push_back(run.completed(label));
  }
  return times;
}

std::vector<std::vector<double>> decided_gates(const Run& run) {
  std::vector<std::vector<double>> gates;
  for (const std::vector<GateMark>& of : run.job.gates) {
    std::vector<double>& times = gates.emplace_back();
    for (const GateMark& mark : of) {
      const EngineJob& job = run.job.engine;
      double decided = run.times.start(job, mark.process, mark.op) + mark.there;
      const Op& op = job.ops[static_cast<std::size_t>(mark.op)];
      if (op.kind == OpKind::ask) {
        const int signal = job.questions[static_cast<std::size_t>(op.index)].signal;
        decided = std::max(decided, run.times.fired[static_cast<std::size_t>(signal)]);
      }
      times.push_back(decided);
    }
  }
  return gates;
}

// Of the gates within the window: a gate of wave w may grant label w at most, and w - D at least.
double label_age(const Run& run, const Window& window, const Plan& plan) {
  if (!plan.server || !run.bounded) return 0;
  if (!plan.server->pulls_newest()) return plan.server->clock_distance;
  double age = 0;
  double gates = 0;
  for (const std::vector<double>& of : decided_gates(run)) {
    for (Wave wave = window.begin / run.wave + 1; wave < window.end / run.wave; ++wave) {
      if (wave > std::ssize(of)) break;
      Label label = wave;
      while (label > 0 && run.completed(label) > of[static_cast<std::size_t>(wave - 1)]) --label;
      age += static_cast<double>(wave - label);
      ++gates;
    }
  }
  return gates > 0 ? age / gates : 0;
}

Simulation measure(const Run& run, const Window& window, const Plan& plan, const System& system,
                   const SimulationRequest& request) {
  const auto& marks = traits(system.schedule).has_flush ? run.job.updated : run.job.computed;
  const auto minibatches = static_cast<double>(window.end - window.begin);
  Simulation result;
  double start = 0;
  double end = 0;
  double alone = 0;  // samples/s where virtual workers go each at its own pace
  double stretch = 1;
  const bool asked = request.minibatches || request.jitter > 0;
  // No pace lasts that a device or a link does not keep: what gets ahead of it fills queues, which
  // with many minibatches in flight may take longer than the run.
  const bool goes_on = !asked && !request.durations;
  const double played = run.job.minibatches;
  for (std::size_t p = 0; p < run.job.processes.size(); ++p) {
    const PlanProcess& process = run.job.processes[p];
    if (process.position > 0 || process.replica > 0) continue;
    const double from = window.begin == 0 ? 0 : run.at(marks, p, window.begin - 1);
    const double to = run.at(marks, p, window.end - 1);
    start = std::max(start, from);
    end = std::max(end, to);
    if (!traits(system.sync).bounded) check_takes_time(to - from);
    const int samples = plan.minibatch_of(VirtualWorkerId{process.virtual_worker});
    result.global_batch += samples;
    const double least = goes_on ? most_computed(run, process.virtual_worker) / played : 0;
    alone += samples / std::max((to - from) / minibatches, least);
  }
  result.window_seconds = end - start;
  check_takes_time(result.window_seconds);
  if (!traits(system.sync).bounded) {
    result.throughput = alone;
    result.iteration_seconds = result.global_batch / alone;
  } else {
    result.iteration_seconds = (end - start) / minibatches;
    const double wave = result.iteration_seconds * static_cast<double>(run.wave);
    if (!asked) stretch = stretched(run, window, wave);
    result.iteration_seconds *= stretch;
    if (goes_on) {
      const double least = most_computed(run, -1) / played;
      const double slowest = slowest_stage(run, marks, window) / minibatches;
      if (slowest > (1 + kPattern) * result.iteration_seconds) result.iteration_seconds = slowest;
      result.iteration_seconds = std::max(result.iteration_seconds, least);
    }
    result.throughput = result.global_batch / result.iteration_seconds;
  }
  result.bytes_between_nodes = run.job.sync_bytes_between_nodes;
  result.label_age = label_age(run, window, plan);
  result.actions = run.job.actions;
  result.rates = run.times.rates;
  result.replayed = run.replayed;
  for (std::size_t p = 0; request.stages && p < run.job.processes.size(); ++p) {
    // Behind a flush some devices are done earlier than others, always by as much.
    if (traits(system.schedule).has_flush) {
      start = window.begin == 0 ? 0 : run.at(marks, p, window.begin - 1);
      end = run.at(marks, p, window.end - 1);
    }
    result.stages.push_back(looked_at(run, p, {start, end}, stretch));
  }
  if (!request.keep_events) return result;
  result.events = events_of(run);
  result.complete = completed(run);
  result.gates = decided_gates(run);
  return result;
}

void check_fits(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  const auto layers = static_cast<int>(profile.layers.size());
  if (!plan.model.empty() && plan.model != profile.model) {
    throw UserError("",
                    format("the plan is for model '%s', the profile for '%s' (a plan for another "
                           "profile). Give the profile it was made with, or plan again.",
                           plan.model.c_str(), profile.model.c_str()));
  }
  if (!plan.virtual_workers.empty() && !plan.virtual_workers.front().stages.empty() &&
      plan.virtual_workers.front().stages.back().end_layer != layers) {
    throw UserError("", format("the plan has %d layers, the profile has %d (a plan for another "
                               "profile). Give the profile it was made with, or plan again.",
                               plan.virtual_workers.front().stages.back().end_layer, layers));
  }
  check_plan(plan, "plan", &cluster, layers);
}

void check(const Plan& plan, const System& system, const SimulationRequest& request) {
  if (!plan.server && plan.virtual_workers.size() > 1 && traits(system.sync).waves()) {
    throw UserError(
        "", format("the plan has %zu virtual workers and no [parameter_server] (it synchronises "
                   "them). Add one.",
                   plan.virtual_workers.size()));
  }
  if (!request.minibatches) return;
  const Minibatch wave = plan.wave_length();
  const Minibatch least = traits(system.schedule).has_flush || request.durations ? 1 : 2 * wave;
  if (*request.minibatches < least) {
    throw UserError(
        "--minibatches",
        format("%d is too few (two waves of %lld minibatches show a steady "
               "state). Ask for at least %lld.",
               *request.minibatches, static_cast<long long>(wave), static_cast<long long>(least)));
  }
}

void check_durations(const Durations& durations, const Plan& plan) {
  const auto first = static_cast<long long>(durations.first());
  if (durations.minibatches() > std::ssize(durations.rows())) {
    throw UserError(durations.file(),
                    format("has %zu rows of minibatches %lld to %lld (fewer than one of each). Add "
                           "those that are missing, or remove what stands apart.",
                           durations.rows().size(), first,
                           first + static_cast<long long>(durations.minibatches()) - 1));
  }
  if (traits(composition(plan).sync).waves()) return;
  for (std::size_t vw = 1; vw < plan.virtual_workers.size(); ++vw) {
    const Minibatch own = durations.minibatches_of(static_cast<int>(vw));
    if (own == durations.minibatches_of(0)) continue;
    throw UserError(
        durations.file(),
        format("ends with minibatch %lld of virtual worker 0 and with minibatch %lld of "
               "virtual worker %zu (they add their gradients of every minibatch). "
               "Remove what only one of them has.",
               first + static_cast<long long>(durations.minibatches_of(0)) - 1,
               first + static_cast<long long>(own) - 1, vw));
  }
}

}  // namespace

Simulation simulate(const Plan& plan, const Cluster& cluster, const Profile& profile,
                    const SimulationRequest& asked) {
  check_fits(plan, cluster, profile);
  SimulationRequest request = asked;
  if (request.durations) check_durations(*request.durations, plan);
  if (request.durations && !request.minibatches) {
    request.minibatches = static_cast<int>(request.durations->minibatches());
  }
  if (request.durations && !plan.runtime.empty()) {
    throw UserError("", "runtime '" + plan.runtime +
                            "' cannot be given with recorded times (its actions are others than "
                            "this one's). Leave the key or --durations out.");
  }
  if (plan.runtime == "megatron-deepspeed") {
    return simulate_megatron(plan, cluster, profile, request);
  }
  if (!plan.runtime.empty()) {
    throw UserError("", "runtime '" + plan.runtime +
                            "' cannot be simulated (known are this one, without a name, and "
                            "megatron-deepspeed). Leave the key out.");
  }
  const System system = composition(plan);
  check(plan, system, request);
  CostTable own(cluster, profile, updates_of(plan));
  CostTable& costs = request.costs == nullptr ? own : *request.costs;
  Window window;
  // Where virtual workers may be ahead, minibatches can be even for a while and are not later.
  const bool ahead = traits(system.sync).rounds || (plan.server && plan.server->clock_distance > 0);
  const bool by_minibatch = traits(system.schedule).has_flush && !ahead;
  SimulationMemory scratch;
  SimulationMemory& memory = request.memory == nullptr ? scratch : *request.memory;
  const Run run = by_minibatch ? play_flush(plan, system, costs, memory, request, window)
                               : play_continuous(plan, system, costs, memory, request, window);
  Simulation result = measure(run, window, plan, system, request);
  if (!request.ledgers) return result;
  ModelTables& tables = *costs.tables();
  for (SimulatedStage& row : result.stages) {
    row.memory = stage_ledger(plan, cluster, profile, VirtualWorkerId{row.virtual_worker},
                              StageId{row.stage}, row.replica, tables.held(), &tables)
                     .total();
  }
  return result;
}

}  // namespace hetpipe
