// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <optional>

#include "base/error.h"
#include "partitioner/schedule/wave_rules.h"
#include "tests/end-to-end/serial_place.h"

// The virtual workers' schedules, played action by action. Which of the actions that are ready
// comes first does not matter: an action reads what its own stage did before (the stage's order is
// fixed), values of other stages that are written once (the output of an F, the gradient of a B),
// sums over virtual workers, each fixed by its update's number, and snapshots, each fixed by its
// label.
namespace hetpipe {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

class Played {
 public:
  explicit Played(const SerialSystem& system)
      : system_(system),
        layers_(system.model, system.device, system.seed),
        parameters_(ParameterLayout::parameters(system.model, 0, system.model.layer_count())) {
    Floats weights(at(parameters_.count()));
    fill_initial(parameters_, system.seed, weights);
    snapshots_.push_back(weights);
    const bool waves = composition(system.plan).sync != SyncRule::all_reduce;
    for (int i = 0; i < system.sampler.workers(); ++i) {
      // All take part in every sum of gradients, with zeros when they have run out of samples.
      workers_.emplace_back(system.plan, i,
                            waves ? system.sampler.count(i) : rounds_of(system.sampler));
      Worker& worker = workers_.back();
      worker.number = i;
      for (SerialStage& stage : stages_of(system, layers_, i)) {
        Floats statistics(at(stage.statistics().count()));
        fill_initial(stage.statistics(), system.seed, statistics);
        Floats initial = slice(stage, weights);
        worker.places.emplace_back(worker.rules, static_cast<int>(worker.places.size()),
                                   std::move(stage), std::move(initial), statistics,
                                   system.optimizer);
      }
      plan_actions(worker);
    }
    result_.losses.resize(workers_.size());
  }

  SerialSystem::Result run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Worker& worker : workers_) {
        for (std::size_t d = 0; d < worker.actions.size(); ++d) {
          while (step(worker, d)) moved = true;
        }
      }
    }
    for (const Worker& worker : workers_) {
      for (std::size_t d = 0; d < worker.actions.size(); ++d) {
        ensure(worker.next[d] == worker.actions[d].size() && !worker.due[d], "it all was played");
      }
    }
    collect();
    return std::move(result_);
  }

 private:
  struct Due {  // an update, before anything else at its device
    SerialPlace* place;
    Minibatch minibatch;
  };
  struct Worker {
    Worker(const Plan& plan, int i, Minibatch end) : rules(plan, i, end) {}
    int number = 0;
    SerialRules rules;
    std::deque<SerialPlace> places;
    Schedule actions;  // [device]
    std::vector<std::size_t> next;
    std::vector<std::optional<Due>> due;
    std::map<Minibatch, std::vector<SerialMicroBatch>> minibatches;
    std::map<Minibatch, std::pair<Wave, Label>> granted;  // last gate passed before, and its label
  };

  void plan_actions(Worker& worker) {
    if (worker.rules.end == 0) return;
    const auto& stages = system_.plan.virtual_workers[at(worker.number)].stages;
    ScheduleRequest request;
    // An interleaved schedule gives its devices one chunk after the other.
    while (request.stages < std::ssize(stages) &&
           stages[at(request.stages)].devices != stages[0].devices) {
      ++request.stages;
    }
    request.chunks = static_cast<int>(stages.size()) / request.stages;
    request.micro_batches = system_.plan.micro_batches;
    request.in_flight = system_.plan.in_flight;
    request.end = worker.rules.end;
    worker.actions = generate(worker.rules.system.schedule, request);
    worker.next.resize(worker.actions.size());
    worker.due.resize(worker.actions.size());
  }

  // One thing that the device can do next; false: it waits, or is done.
  bool step(Worker& worker, std::size_t device) {
    std::optional<Due>& due = worker.due[device];
    if (due) {
      if (!try_update(worker, *due->place, due->minibatch)) return false;
      due.reset();
      return true;
    }
    if (worker.next[device] == worker.actions[device].size()) return false;
    const Action& action = worker.actions[device][worker.next[device]];
    const std::size_t k = at(action.chunk) * worker.actions.size() + device;
    SerialPlace& place = worker.places[k];
    // W needs no turn of its own: its B has computed both gradients, with the same weights.
    if (action.kind == ActionKind::forward && !try_forward(worker, place, action)) return false;
    if (action.kind == ActionKind::backward) {
      if (!try_backward(worker, place, action)) return false;
      const Minibatch p = action.minibatch;
      if (place.backwards.contains({p, system_.plan.micro_batches - 1}) &&
          (!worker.rules.two_versions() || worker.rules.ends_wave(p))) {
        place.summable.insert(worker.rules.update_of(p));
        due = Due{&place, p};
      }
    }
    ++worker.next[device];
    return true;
  }

  // Where an action stands for all micro-batches of its minibatch.
  std::pair<int, int> micros_of(const Worker& worker, const Action& action) const {
    const ScheduleRule rule = worker.rules.system.schedule;
    const bool all = rule == ScheduleRule::continuous_1f1b ||
                     (rule == ScheduleRule::nf1b && action.kind == ActionKind::backward);
    return all ? std::pair(0, system_.plan.micro_batches)
               : std::pair(action.micro, action.micro + 1);
  }

  bool try_forward(Worker& worker, SerialPlace& place, const Action& action) {
    const Minibatch p = action.minibatch;
    const auto [first, end] = micros_of(worker, action);
    if (place.number > 0 && !worker.places[at(place.number - 1)].forwards.contains({p, end - 1})) {
      return false;
    }
    if (first == 0 && worker.rules.waves() && !try_pull(worker, place, p)) return false;
    auto [samples, added] = worker.minibatches.try_emplace(p);
    if (added) {
      samples->second =
          micro_batches_of(system_.data, system_.sampler, system_.sampler.samples(worker.number, p),
                           system_.plan.micro_batches);
    }
    for (int m = first; m < end; ++m) {
      SerialMicroBatch& micro = samples->second[at(m)];
      SerialPlace::Flight& flight = place.flights[{p, m}];
      flight.forward = place.for_forward(p, m);
      flight.passes = place.stage.forward(micro, flight.forward.weights, place.running);
      if (worker.number == 0 && m == 0) result_.used[{place.number, p}] = flight.forward.weights;
      place.forwards.insert({p, m});
    }
    if (end == system_.plan.micro_batches) place.running_after[p] = place.running;
    return true;
  }

  // The label of a minibatch: granted at the gate before it, otherwise that of the one before.
  bool try_pull(Worker& worker, SerialPlace& place, Minibatch p) {
    const int nm = worker.rules.in_flight;
    const Wave wave = p / nm;
    if (!worker.granted.contains(p)) {
      std::pair<Wave, Label> last{0, 0};
      if (p > 0) last = worker.granted.at(p - 1);
      if (p % nm == nm - 1 && wave > 0) {
        last = {wave, system_.granted ? system_.granted(worker.number, wave)
                                      : SerialWsp::bound(0, distance(worker))(0, wave)};
      }
      worker.granted[p] = last;
    }
    const auto [gate, label] = worker.granted.at(p);
    if (gate == place.gate) return true;
    if (label >= std::ssize(snapshots_)) return false;
    ensure(place.updates() >= gate * nm, "own waves before a gate are complete");
    place.pull(gate, label, slice(place.stage, snapshots_[at(label)]));
    return true;
  }

  Wave distance(const Worker& worker) const {
    return worker.rules.system.sync == SyncRule::asp ? kUnbounded
                                                     : system_.plan.server->clock_distance;
  }

  bool try_backward(Worker& worker, SerialPlace& place, const Action& action) {
    const Minibatch p = action.minibatch;
    const auto [first, end] = micros_of(worker, action);
    const std::size_t after = at(place.number) + 1;
    if (after < worker.places.size() && !worker.places[after].backwards.contains({p, end - 1})) {
      return false;
    }
    std::vector<Floats>& gradients = place.gradients[worker.rules.update_of(p)];
    gradients.resize(at(place.stage.replicas()));
    for (int m = first; m < end; ++m) {
      SerialMicroBatch& micro = worker.minibatches.at(p)[at(m)];
      SerialPlace::Flight& flight = place.flights.at({p, m});
      const SerialPlace::Used used = place.for_backward(p, m, flight);
      result_.uses.push_back({worker.number, place.number, p, m, flight.forward.updates,
                              used.updates, flight.forward.ahead, used.ahead,
                              worker.rules.waves() ? worker.granted.at(p).second : 0});
      if (worker.rules.system.weights == WeightRule::recomputed) {
        place.stage.recompute(flight.passes, used.weights);
      }
      place.stage.backward(micro, flight.passes, used.weights, loss_samples(worker, p), gradients);
      place.flights.erase({p, m});
      place.backwards.insert({p, m});
      if (place.number > 0) continue;
      Floats& losses = result_.losses[at(worker.number)][p];
      losses.insert(losses.end(), micro.losses.begin(), micro.losses.end());
      micro = {};
    }
    return true;
  }

  // The gradient is that of the mean over the samples of one update.
  std::int64_t loss_samples(const Worker& worker, Minibatch p) const {
    if (worker.rules.waves()) return system_.sampler.samples(worker.number, p).count;
    if (!worker.rules.two_versions()) return samples_of_round(system_.sampler, p);
    std::int64_t samples = 0;
    Minibatch q = p - p % worker.rules.in_flight;
    do {
      samples += samples_of_round(system_.sampler, q);
    } while (!worker.rules.ends_wave(q++));
    return samples;
  }

  bool try_update(Worker& worker, SerialPlace& place, Minibatch p) {
    const SerialRules& rules = worker.rules;
    const std::optional<Floats> sum = rules.waves()
                                          ? sum_over(std::span<const Worker>(&worker, 1), place, p)
                                          : sum_over(workers_, place, p);
    if (!sum) return false;
    place.update(p, *sum);
    if (rules.ends_wave(p)) {
      const Label label = p / rules.in_flight + 1;
      place.at[label] = {place.weights(place.updates()), {}, place.steps.slots()};
      // A label of a run with servers holds the statistics of its own minibatches' F's; without
      // servers it is a moment.
      place.running_at[label] = rules.waves() ? place.running_after.at(p) : place.running;
      if (rules.waves()) take_snapshots();
    }
    return true;
  }

  // s = first gradient; s += next; ... over (virtual worker, stage, replica), each layer from the
  // stage that has it. Nothing as long as one is missing.
  template <class Workers>
  std::optional<Floats> sum_over(const Workers& workers, const SerialPlace& place,
                                 Minibatch p) const {
    Floats sum(at(place.stage.parameters().count()));
    const Minibatch update = place.rules.update_of(p);
    for (int l = place.stage.first(); l < place.stage.end(); ++l) {
      bool first = true;
      for (const Worker& worker : workers) {
        const SerialPlace& owner = owner_of(worker, l);
        if (!owner.summable.contains(update)) return std::nullopt;
        const auto from = owner.stage.parameters().of_layer(l);
        const auto to = place.stage.parameters().of_layer(l);
        for (const Floats& gradient : owner.gradients.at(update)) {
          for (std::size_t e = 0; e < from.size(); ++e) {
            for (std::int64_t i = 0; i < from[e].count; ++i) {
              // Zero where there was no sample.
              const float value = gradient.empty() ? 0.0f : gradient[at(from[e].offset + i)];
              float& s = sum[at(to[e].offset + i)];
              s = first ? value : s + value;
            }
          }
          first = false;
        }
      }
    }
    return sum;
  }

  static const SerialPlace& owner_of(const Worker& worker, int layer) {
    return *std::find_if(worker.places.begin(), worker.places.end(),
                         [&](const SerialPlace& place) { return layer < place.stage.end(); });
  }

  // snapshot(L+1) = snapshot(L) + factor(0) * wave L of worker 0 + ..., once all are in.
  void take_snapshots() {
    for (;;) {
      const Wave wave = std::ssize(snapshots_) - 1;
      Floats next = snapshots_.back();
      bool any = false;
      for (const Worker& worker : workers_) {
        if (wave * worker.rules.in_flight >= worker.rules.end) continue;  // it has finished
        any = true;
        const float factor = system_.factors[at(worker.number)];
        for (const SerialPlace& place : worker.places) {
          if (!place.at.contains(wave + 1)) return;
          const std::int64_t begin = offset(place.stage);
          const Floats& push = place.waves[at(wave)];
          for (std::size_t i = 0; i < push.size(); ++i) {
            next[at(begin) + i] += factor == 1.0f ? push[i] : factor * push[i];
          }
        }
      }
      if (!any) return;
      snapshots_.push_back(std::move(next));
    }
  }

  void collect();
  SerialState joined(const Worker& worker, Label label) const;

  Floats slice(const SerialStage& stage, const Floats& whole) const {
    const auto begin = whole.begin() + offset(stage);
    return {begin, begin + stage.parameters().count()};
  }
  std::int64_t offset(const SerialStage& stage) const {
    return ParameterLayout::parameters(system_.model, 0, stage.first()).count();
  }

  const SerialSystem& system_;
  SerialLayers layers_;
  ParameterLayout parameters_;
  std::deque<Worker> workers_;
  std::vector<Floats> snapshots_;  // by label
  SerialSystem::Result result_;
};

void append(Floats& to, const Floats& what) { to.insert(to.end(), what.begin(), what.end()); }

// A virtual worker's stages one after another, at a label or where it had finished before.
SerialState Played::joined(const Worker& worker, Label label) const {
  SerialState state;
  for (const SerialPlace& place : worker.places) {
    const auto& [own, of] = *std::prev(place.at.upper_bound(label));
    append(state.weights, of.weights);
    const std::vector<Floats>& running = place.running_at.at(own);
    append(state.statistics, mean_of_replicas(place.stage, running));
    state.slots.resize(of.slots.size());
    for (std::size_t s = 0; s < of.slots.size(); ++s) append(state.slots[s], of.slots[s]);
  }
  return state;
}

Floats mean(const std::vector<const Floats*>& all) {
  Floats result(all.front()->size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    double sum = 0;
    for (const Floats* one : all) sum += static_cast<double>((*one)[i]);
    result[i] = static_cast<float>(sum / static_cast<double>(all.size()));
  }
  return result;
}

void Played::collect() {
  const bool waves = workers_[0].rules.waves();
  for (const Worker& worker : workers_) {
    for (const SerialPlace& place : worker.places) {
      result_.label = std::max(result_.label, place.at.rbegin()->first);
    }
  }
  for (Label label = 0; label <= result_.label; ++label) {
    std::vector<SerialState> states;
    for (const Worker& worker : workers_) states.push_back(joined(worker, label));
    SerialState& state = result_.at[label] = states[0];
    if (!waves) {
      for (const SerialState& other : states) {
        ensure(other.weights == state.weights && other.slots == state.slots,
               "one gradient makes one model");
      }
      std::vector<std::vector<SerialStage>> stages;
      std::vector<std::vector<std::vector<Floats>>> running;
      for (const Worker& worker : workers_) {
        stages.emplace_back();
        running.emplace_back();
        for (const SerialPlace& place : worker.places) {
          stages.back().push_back(place.stage);
          running.back().push_back(place.running_at.at(label));
        }
      }
      state.statistics = mean_statistics(system_, stages, running);
      continue;
    }
    state.weights = snapshots_[at(label)];
    std::vector<const Floats*> statistics;
    for (const SerialState& of : states) statistics.push_back(&of.statistics);
    state.statistics = mean(statistics);
    for (std::size_t s = 0; s < state.slots.size(); ++s) {
      std::vector<const Floats*> slots;
      for (const SerialState& of : states) slots.push_back(&of.slots[s]);
      state.slots[s] = mean(slots);
    }
  }
  for (const SerialPlace& place : workers_[0].places) {
    std::vector<Floats>& versions = result_.versions.emplace_back();
    for (Minibatch t = 0; !waves && t <= place.updates(); ++t) {
      versions.push_back(place.weights(t));
    }
  }
}

}  // namespace

SerialSystem::Result run_played(const SerialSystem& system) { return Played(system).run(); }

}  // namespace hetpipe
