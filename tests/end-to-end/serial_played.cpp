// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "base/error.h"
#include "base/index.h"
#include "partitioner/schedule/wave_rules.h"
#include "tests/end-to-end/serial_arrivals.h"
#include "tests/end-to-end/serial_worker.h"

// The virtual workers' schedules, played action by action. Which of the actions that are ready
// comes first does not matter: an action reads what its own stage did before (the stage's order is
// fixed), values of other stages that are written once (the output of an F, the gradient of a B),
// sums over virtual workers, each fixed by its update's number, and snapshots, each fixed by its
// label.
namespace hetpipe {
namespace {

class Played {
 public:
  explicit Played(const SerialSystem& system)
      : system_(system), layers_(system.model, system.device, system.seed) {
    const auto whole = ParameterLayout::parameters(system.model, 0, system.model.layer_count());
    snapshots_.emplace_back(at(whole.count()));
    fill_initial(whole, system.seed, snapshots_[0]);
    const bool waves = traits(composition(system.plan).sync).waves();
    for (int i = 0; i < system.sampler.workers(); ++i) {
      // All take part in every sum of gradients, with zeros when they have run out of samples.
      workers_.emplace_back(system, layers_, i,
                            waves ? system.sampler.count(i) : rounds_of(system.sampler));
    }
    result_.losses.resize(workers_.size());
    if (!traits(composition(system.plan).sync).bounded) arrivals_.emplace(system, workers_);
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
    if (arrivals_) snapshots_ = arrivals_->of_waves(workers_, snapshots_[0]);
    collect_labels(system_, workers_, snapshots_, servers_, result_);
    return std::move(result_);
  }

 private:
  using Worker = SerialWorker;

  // One thing that the device can do next; false: it waits, or is done.
  bool step(Worker& worker, std::size_t device) {
    std::optional<Worker::Due>& due = worker.due[device];
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
        due = Worker::Due{&place, p};
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
      if (m == 0) {
        place.first_used[p] = flight.forward.weights;
        place.foreign[p] = foreign_of(worker, place, p);
      }
      flight.passes =
          place.stage.forward(micro, flight.forward.weights, place.running, place.foreign.at(p));
      if (worker.number == 0 && m == 0) result_.used[{place.number, p}] = flight.forward.weights;
      place.forwards.insert({p, m});
    }
    if (end == system_.plan.micro_batches) place.running_after[p] = place.running;
    return true;
  }

  // What the first F of p at the owners' stages used.
  SerialForeign foreign_of(const Worker& worker, const SerialPlace& place, Minibatch p) const {
    SerialForeign foreign;
    for (const SerialPlace& owner : worker.places) {
      for (const ParameterEntry& entry : owner.stage.parameters().entries()) {
        if (!entry.is_own() || !place.stage.uses_foreign(entry.name)) continue;
        const auto begin = owner.first_used.at(p).begin() + entry.offset;
        foreign[entry.name] = {begin, begin + entry.count};
      }
    }
    return foreign;
  }

  // The label of a minibatch: granted at the gate before it, otherwise that of the one before.
  bool try_pull(Worker& worker, SerialPlace& place, Minibatch p) {
    const int nm = worker.rules.in_flight;
    const Minibatch length = worker.rules.wave;
    const Wave wave = p / length;
    if (!worker.granted.contains(p)) {
      std::pair<Wave, Label> last{0, 0};
      if (p > 0) last = worker.granted.at(p - 1);
      if (p % length == nm - 1 && wave > 0) {
        last = {wave, granted(worker.number, wave)};
      }
      worker.granted[p] = last;
    }
    const auto [gate, label] = worker.granted.at(p);
    if (gate == place.gate) return true;
    if (label >= std::ssize(snapshots_)) return false;
    ensure(place.updates() >= gate * length, "own waves before a gate are complete");
    // By arrival the snapshot has all own waves before the gate.
    place.pull(gate, arrivals_ ? gate : label,
               slice_of(place.stage, system_.model, snapshots_[at(label)]));
    return true;
  }

  Label granted(int worker, Wave wave) const {
    if (arrivals_) return arrivals_->granted(worker, wave);
    return system_.granted ? system_.granted(worker, wave)
                           : SerialWsp::bound(0, system_.plan.server->clock_distance)(0, wave);
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
        place.stage.recompute(flight.passes, used.weights, place.foreign_of_backward(p));
      }
      place.stage.backward(micro, flight.passes, used.weights, loss_samples(worker, p), gradients,
                           place.foreign_of_backward(p));
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

  // Nothing as long as a stage's gradient is missing.
  std::optional<float> clip_factor(const Worker& worker, Minibatch p) const {
    if (system_.optimizer.clip_norm == 0) return 1.0f;
    Floats whole;
    for (const SerialPlace& place : worker.places) {
      const std::optional<Floats> sum =
          sum_of_gradients(workers_, worker.rules.waves() ? &worker : nullptr, place, p);
      if (!sum) return std::nullopt;
      whole.insert(whole.end(), sum->begin(), sum->end());
    }
    const Model& model = system_.model;
    return global_clip_factor(system_.optimizer,
                              ParameterLayout::parameters(model, 0, model.layer_count()), whole);
  }

  bool try_update(Worker& worker, SerialPlace& place, Minibatch p) {
    const SerialRules& rules = worker.rules;
    std::optional<Floats> sum =
        sum_of_gradients(workers_, rules.waves() ? &worker : nullptr, place, p);
    const std::optional<float> factor = clip_factor(worker, p);
    if (!sum || !factor) return false;
    if (*factor < 1) {
      for (float& value : *sum) value *= *factor;
    }
    place.update(p, *sum);
    if (rules.ends_wave(p)) {
      const Label label = p / rules.wave + 1;
      place.at[label] = {place.weights(place.updates()), {}, place.steps.slots()};
      // A label of a run with servers holds the statistics of its own minibatches' F's; without
      // servers it is a moment.
      place.running_at[label] = rules.waves() ? place.running_after.at(p) : place.running;
      if (arrivals_) {
        arrivals_->take(workers_, snapshots_);
      } else if (rules.waves()) {
        take_snapshots(system_, workers_, servers_, snapshots_);
      }
    }
    return true;
  }

  const SerialSystem& system_;
  SerialLayers layers_;
  SerialWorkers workers_;
  SerialServers servers_{.outer = outer_of(system_.plan), .step = servers_of(system_)};
  std::optional<SerialArrivals> arrivals_;
  std::vector<Floats> snapshots_;  // by label
  SerialSystem::Result result_;
};

}  // namespace

SerialSystem::Result run_played(const SerialSystem& system) { return Played(system).run(); }

}  // namespace hetpipe
