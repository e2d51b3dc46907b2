// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_worker.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"

namespace hetpipe {
namespace {

void append(Floats& to, const Floats& what) { to.insert(to.end(), what.begin(), what.end()); }

Floats mean(const std::vector<const Floats*>& all) {
  Floats result(all.front()->size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    double sum = 0;
    for (const Floats* one : all) sum += static_cast<double>((*one)[i]);
    result[i] = static_cast<float>(sum / static_cast<double>(all.size()));
  }
  return result;
}

// Whether a parameter that is owned in one part of the model is in the other, as another's too.
bool have_in_common(const ParameterLayout& one, const ParameterLayout& other) {
  return std::any_of(one.entries().begin(), one.entries().end(), [&](const ParameterEntry& a) {
    return a.is_own() && std::any_of(other.entries().begin(), other.entries().end(),
                                     [&](const ParameterEntry& b) { return a.name == b.name; });
  });
}

// Of an update of a place's own parameters, [replica], with the parts of all uses in its virtual
// worker. Nothing as long as one is missing.
std::optional<std::vector<Floats>> gradients_of(const SerialWorker& worker,
                                                const SerialPlace& place, Minibatch update) {
  std::vector<SerialStage> stages;
  std::vector<std::vector<Floats>> gradients;
  for (std::size_t k = at(place.number); k < worker.places.size(); ++k) {
    const SerialPlace& other = worker.places[k];
    if (!have_in_common(place.stage.parameters(), other.stage.parameters())) continue;
    if (!other.summable.contains(update)) return std::nullopt;
    stages.push_back(other.stage);
    gradients.push_back(other.gradients.at(update));
    for (Floats& gradient : gradients.back()) gradient.resize(at(other.stage.gradient_count()));
  }
  if (stages.empty()) return std::vector<Floats>(at(place.stage.replicas()));
  add_uses(stages, gradients);
  return gradients.front();
}

// A virtual worker's stages one after another, at a label or where it had finished before.
SerialState joined(const SerialWorker& worker, Label label) {
  SerialState state;
  for (const SerialPlace& place : worker.places) {
    const auto& [own, of] = *std::prev(place.at.upper_bound(label));
    append(state.weights, of.weights);
    append(state.statistics, mean_of_replicas(place.stage, place.running_at.at(own)));
    state.slots.resize(of.slots.size());
    for (std::size_t s = 0; s < of.slots.size(); ++s) append(state.slots[s], of.slots[s]);
  }
  return state;
}

// Everybody has the same weights and optimizer state; running statistics are averaged.
SerialState state_of_all(const SerialSystem& system, const SerialWorkers& workers, Label label) {
  SerialState state = joined(workers[0], label);
  std::vector<std::vector<SerialStage>> stages;
  std::vector<std::vector<std::vector<Floats>>> running;
  for (const SerialWorker& worker : workers) {
    const SerialState other = joined(worker, label);
    ensure(other.weights == state.weights && other.slots == state.slots,
           "one gradient makes one model");
    stages.emplace_back();
    running.emplace_back();
    for (const SerialPlace& place : worker.places) {
      stages.back().push_back(place.stage);
      running.back().push_back(place.running_at.at(label));
    }
  }
  state.statistics = mean_statistics(system, stages, running);
  return state;
}

SerialState state_of_snapshot(const SerialWorkers& workers, const Floats& snapshot, Label label) {
  std::vector<SerialState> states;
  for (const SerialWorker& worker : workers) states.push_back(joined(worker, label));
  const auto mean_of = [&](const auto& part) {
    std::vector<const Floats*> parts;
    for (const SerialState& state : states) parts.push_back(&part(state));
    return mean(parts);
  };
  SerialState state;
  state.weights = snapshot;
  state.statistics = mean_of([](const SerialState& of) -> const Floats& { return of.statistics; });
  for (std::size_t s = 0; s < states[0].slots.size(); ++s) {
    state.slots.push_back(
        mean_of([s](const SerialState& of) -> const Floats& { return of.slots[s]; }));
  }
  return state;
}

}  // namespace

SerialWorker::SerialWorker(const SerialSystem& system, SerialLayers& layers, int the_number,
                           Minibatch end)
    : number(the_number), rules(system.plan, the_number, end) {
  for (SerialStage& stage : stages_of(system, layers, number)) {
    Floats weights(at(stage.parameters().count()));
    fill_initial(stage.parameters(), system.seed, weights);
    Floats statistics(at(stage.statistics().count()));
    fill_initial(stage.statistics(), system.seed, statistics);
    places.emplace_back(
        rules, static_cast<int>(places.size()), std::move(stage), std::move(weights), statistics,
        composition(system.plan).sync == SyncRule::server_step ? system.stages_optimizer
                                                               : system.optimizer);
  }
  if (end == 0) return;
  const auto& stages = system.plan.virtual_workers[at(number)].stages;
  ScheduleRequest request;
  // An interleaved schedule gives its devices one chunk after the other.
  while (request.stages < std::ssize(stages) &&
         stages[at(request.stages)].devices != stages[0].devices) {
    ++request.stages;
  }
  request.chunks = static_cast<int>(stages.size()) / request.stages;
  request.micro_batches = system.plan.micro_batches;
  request.in_flight = system.plan.in_flight;
  request.end = end;
  actions = generate(rules.system.schedule, request);
  next.resize(actions.size());
  due.resize(actions.size());
}

std::int64_t offset_of(const SerialStage& stage, const Model& model) {
  return ParameterLayout::parameters(model, 0, stage.first()).count();
}

Floats slice_of(const SerialStage& stage, const Model& model, const Floats& whole) {
  const auto begin = whole.begin() + offset_of(stage, model);
  return {begin, begin + stage.parameters().count()};
}

std::optional<Floats> sum_of_gradients(const SerialWorkers& workers, const SerialWorker* only,
                                       const SerialPlace& place, Minibatch p) {
  SerialSums sums;
  const Minibatch update = place.rules.update_of(p);
  for (const SerialWorker& worker : workers) {
    if (only != nullptr && only != &worker) continue;
    for (const SerialPlace& other : worker.places) {
      if (!have_in_common(place.stage.parameters(), other.stage.parameters())) continue;
      const auto gradients = gradients_of(worker, other, update);
      if (!gradients) return std::nullopt;
      for (const Floats& gradient : *gradients) sums.add(other.stage.parameters(), gradient);
    }
  }
  return sums.flat(place.stage.parameters());
}

std::optional<SerialOuter> outer_of(const Plan& plan) {
  if (composition(plan).sync != SyncRule::outer) return std::nullopt;
  return SerialOuter{static_cast<float>(plan.server->outer_rate),
                     static_cast<float>(plan.server->outer_momentum)};
}

std::optional<SerialServerStep> servers_of(const SerialSystem& system) {
  if (composition(system.plan).sync != SyncRule::server_step) return std::nullopt;
  const double nm = system.plan.in_flight;
  return SerialServerStep(system.optimizer, system.stages_optimizer, (nm - 1) / nm,
                          ParameterLayout::parameters(system.model, 0, system.model.layer_count()));
}

void take_snapshots(const SerialSystem& system, const SerialWorkers& workers,
                    SerialServers& servers, std::vector<Floats>& snapshots) {
  if (servers.step && servers.slots.empty()) servers.slots.push_back(servers.step->steps.slots());
  for (;;) {
    const Wave wave = std::ssize(snapshots) - 1;
    Floats next = servers.step ? Floats(snapshots.back().size()) : snapshots.back();
    bool any = false;
    Minibatch newest = 0;
    for (const SerialWorker& worker : workers) {
      if (wave * worker.rules.wave >= worker.rules.end) continue;  // it has finished
      any = true;
      newest = std::max(newest, worker.rules.end);
      const float factor = system.factors[at(worker.number)];
      for (const SerialPlace& place : worker.places) {
        if (!place.at.contains(wave + 1)) return;
        const std::int64_t begin = offset_of(place.stage, system.model);
        const Floats& push = place.waves[at(wave)];
        for (std::size_t i = 0; i < push.size(); ++i) {
          next[at(begin) + i] += factor == 1.0f ? push[i] : factor * push[i];
        }
      }
    }
    if (!any) return;
    if (servers.outer) servers.outer->step(snapshots.back(), next);
    if (servers.step) {
      const Minibatch length = workers[0].rules.wave, first = wave * length;
      servers.step->step(snapshots.back(), next, first, std::min(first + length, newest), wave + 1);
      servers.slots.push_back(servers.step->steps.slots());
    }
    snapshots.push_back(std::move(next));
  }
}

void collect_labels(const SerialSystem& system, const SerialWorkers& workers,
                    const std::vector<Floats>& snapshots, const SerialServers& servers,
                    SerialSystem::Result& result) {
  for (const SerialWorker& worker : workers) {
    for (const SerialPlace& place : worker.places) {
      result.label = std::max(result.label, place.at.rbegin()->first);
    }
  }
  const bool waves = workers[0].rules.waves();
  for (Label label = 0; label <= result.label; ++label) {
    result.at[label] = waves ? state_of_snapshot(workers, snapshots[at(label)], label)
                             : state_of_all(system, workers, label);
    if (servers.step) result.at[label].slots = servers.slots[at(label)];
  }
  for (const SerialPlace& place : workers[0].places) {
    std::vector<Floats>& versions = result.versions.emplace_back();
    for (Minibatch t = 0; !waves && t <= place.updates(); ++t) {
      versions.push_back(place.weights(t));
    }
  }
}

}  // namespace hetpipe
