// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/megatron.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/megatron_ledger.h"
#include "partitioner/plan/system.h"
#include "partitioner/simulator/engine.h"
#include "partitioner/simulator/network.h"

namespace hetpipe {

StageActions megatron_order(int stages, StageId stage, int micro_batches, Minibatch minibatch) {
  const auto action = [&](ActionKind kind, int micro) { return Action{kind, minibatch, micro}; };
  // The micro-batch whose action `first_slot` + 2 m falls into `slot`.
  const auto micro_in = [&](int slot, int first_slot) -> std::optional<int> {
    const int twice = slot - first_slot;
    if (twice < 0 || twice % 2 != 0 || twice / 2 >= micro_batches) return std::nullopt;
    return twice / 2;
  };
  const int first_forward = stage.value;
  const int first_backward = 2 * stages - 1 - stage.value;
  const bool has_previous = stage.value > 0;
  const bool has_next = stage.value + 1 < stages;
  StageActions actions;
  for (int slot = 0; slot < 2 * (micro_batches + stages - 1); ++slot) {
    const bool forward_slot = (slot - first_forward) % 2 == 0;
    if (forward_slot) {
      const auto sent = micro_in(slot - 1, first_backward);
      if (sent && has_previous) actions.push_back(action(ActionKind::send, *sent));
      const auto micro = micro_in(slot, first_forward);
      if (micro && has_previous) actions.push_back(action(ActionKind::receive, *micro));
      if (micro) actions.push_back(action(ActionKind::forward, *micro));
    } else {
      const auto micro = micro_in(slot, first_backward);
      if (micro && has_next) actions.push_back(action(ActionKind::receive, *micro));
      const auto sent = micro_in(slot - 1, first_forward);
      if (sent && has_next) actions.push_back(action(ActionKind::send, *sent));
      if (micro) actions.push_back(action(ActionKind::backward, *micro));
    }
  }
  return actions;
}

namespace {

template <class T>
auto& at(T& values, std::int64_t index) {
  return values[static_cast<std::size_t>(index)];
}

// Two layers with one weight.
struct Tie {
  int owner = 0;
  int user = 0;
};

std::vector<Tie> ties(const Profile& profile) {
  std::vector<Tie> found;
  for (std::size_t user = 0; user < profile.layers.size(); ++user) {
    for (std::size_t owner = 0; owner < profile.layers.size(); ++owner) {
      if (!profile.layers[user].shares.empty() &&
          profile.layers[user].shares == profile.layers[owner].name) {
        found.push_back({static_cast<int>(owner), static_cast<int>(user)});
      }
    }
  }
  const int last = static_cast<int>(profile.layers.size()) - 1;
  if (found.empty() && last > 0) found.push_back({0, last});
  return found;
}

void check_runs(const Plan& plan) {
  const auto refuse = [](const std::string& what, const std::string& why, const std::string& then) {
    throw UserError("", what + " under runtime 'megatron-deepspeed' (" + why + "). " + then);
  };
  const ScheduleRule rule = composition(plan).schedule;
  if (rule != ScheduleRule::flush_1f1b) {
    refuse("schedule '" + std::string(to_string(rule)) + "'", "it knows 1F1B with a flush alone",
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
               "a replica is a virtual worker of its own there",
               "Write one virtual worker per replica.");
      }
      if (stages[k].recompute) {
        refuse(format("recompute in stage %zu of virtual worker %zu", k, vw),
               "the imitation has no time for it", "Leave it out.");
      }
    }
    if (!equal) {
      refuse(format("virtual worker %zu cut differently from virtual worker 0", vw),
             "stages all-reduce with their like", "Cut all of them alike.");
    }
  }
}

// What one stage of one virtual worker does and costs.
struct Stage {
  int vw = 0;
  int k = 0;
  DeviceName device;
  int gpus = 1;
  double forward = 0;  // s, of one micro-batch
  double backward = 0;
  double update = 0;
  double parameter_bytes = 0;             // of all GPUs of the device
  double output_bytes = 0;                // to the next stage, of one micro-batch
  std::vector<std::int32_t> activations;  // transfers to the next stage, by micro-batch
  std::vector<std::int32_t> gradients;    // to the previous one
};

enum class Doing { computing, communicating, waiting };

// What an operation of the engine is.
struct Label {
  Doing doing = Doing::waiting;
  std::optional<Action> action;
};

class Lowering {
 public:
  Lowering(const Plan& plan, const Cluster& cluster, const Profile& profile,
           const MegatronConstants& constants)
      : plan_(plan),
        cluster_(cluster),
        profile_(profile),
        network_(cluster, job_),
        constants_(constants) {
    for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
      for (std::size_t k = 0; k < depth(); ++k) {
        add_stage(static_cast<int>(vw), static_cast<int>(k));
      }
    }
    add_links();
  }

  // Iteration after iteration; the next one starts when all ranks have ended this one (the mean
  // loss is a collective).
  void lower(int iterations) {
    std::vector<std::vector<Op>> ops(stages_.size());
    std::vector<std::vector<Label>> labels(stages_.size());
    for (int i = 0; i < iterations; ++i) {
      add_transfers();
      const Rounds rounds = add_rounds();
      for (std::size_t s = 0; s < stages_.size(); ++s) {
        job_.ops.swap(ops[s]);
        labels_.swap(labels[s]);
        play(stages_[s], i);
        finish(stages_[s], rounds, i);
        job_.ops.swap(ops[s]);
        labels_.swap(labels[s]);
      }
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      job_.ops.insert(job_.ops.end(), ops[s].begin(), ops[s].end());
      labels_.insert(labels_.end(), labels[s].begin(), labels[s].end());
      job_.end_process();
    }
    drop_unshared_interfaces(job_);
  }

  Simulation measure(const SimulationRequest& request, int iterations) {
    Engine engine;
    const EngineTimes& times = engine.play(job_, {request.seed, request.jitter});
    Simulation result;
    for (const double end : times.end) result.window_seconds = std::max(result.window_seconds, end);
    result.iteration_seconds = result.window_seconds / iterations;
    for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
      result.global_batch += plan_.minibatch_of(VirtualWorkerId{static_cast<int>(vw)});
    }
    result.throughput = result.global_batch / result.iteration_seconds;
    result.bytes_between_nodes = bytes_between_nodes();
    for (std::size_t s = 0; s < stages_.size(); ++s) add_row(result, times, s, request.keep_events);
    std::stable_sort(
        result.events.begin(), result.events.end(),
        [](const SimulatedEvent& a, const SimulatedEvent& b) { return a.start < b.start; });
    return result;
  }

 private:
  struct Rounds {
    std::vector<std::vector<Ring::Round>> ties;  // [vw][tie]
    int barrier = -1;
    std::vector<Ring::Round> gradients;  // [stage]
    int end = -1;
  };

  std::size_t depth() const { return plan_.virtual_workers.front().stages.size(); }
  Stage& stage(int vw, std::size_t k) {
    return stages_[static_cast<std::size_t>(vw) * depth() + k];
  }

  void add_stage(int vw, int k) {
    const PlanStage& here = at(at(plan_.virtual_workers, vw).stages, k);
    const DeviceKind& kind = cluster_.kind_of(here.devices.front());
    const LayerCosts costs =
        costs_on(profile_, kind, plan_.minibatch_of(VirtualWorkerId{vw}) / plan_.micro_batches);
    Stage stage;
    stage.vw = vw;
    stage.k = k;
    stage.device = here.devices.front();
    stage.gpus = kind.gpus;
    for (int l = here.first_layer; l < here.end_layer; ++l) {
      stage.forward += at(costs.forward, l);
      stage.backward += at(costs.backward, l);
      if (!costs.update.empty()) stage.update = std::max(stage.update, at(costs.update, l));
      stage.parameter_bytes += static_cast<double>(kind.gpus) *
                               static_cast<double>(at(profile_.layers, l).parameter_bytes);
    }
    // Everything that later stages read goes through the next one.
    for (int l = 0; l < here.end_layer; ++l) {
      if (is_read_from(l, here.end_layer)) {
        stage.output_bytes += static_cast<double>(at(costs.output_bytes, l));
      }
    }
    stages_.push_back(stage);
  }

  // Whether a layer from `first` on reads layer `l`.
  bool is_read_from(int l, int first) const {
    for (auto at = profile_.layers.begin() + first; at != profile_.layers.end(); ++at) {
      if (std::find(at->inputs.begin(), at->inputs.end(), l) != at->inputs.end()) return true;
    }
    return false;
  }

  int stage_of(int layer) const {
    const auto& stages = plan_.virtual_workers.front().stages;
    int k = 0;
    while (at(stages, k).end_layer <= layer) ++k;
    return k;
  }

  void add_links() {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const auto route_to = [&](std::size_t other) {
        return network_.add_route(
            stages_[s].device, stages_[other].device,
            {static_cast<int>(s), 1, constants_.send_buffer_bytes * stages_[s].gpus});
      };
      const auto k = static_cast<std::size_t>(stages_[s].k);
      forward_route_.push_back(k + 1 < depth() ? route_to(s + 1) : -1);
      backward_route_.push_back(k > 0 ? route_to(s - 1) : -1);
    }
    for (std::size_t k = 0; k < depth(); ++k) {
      std::vector<DeviceName> members;
      for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
        members.push_back(stage(static_cast<int>(vw), k).device);
      }
      gradient_rings_.emplace_back(network_, members);
    }
    for (const Tie& tie : ties(profile_)) {
      const int a = stage_of(tie.owner);
      const int b = stage_of(tie.user);
      if (a == b) continue;
      const auto bytes =
          static_cast<double>(std::min(at(profile_.layers, tie.owner).parameter_bytes,
                                       at(profile_.layers, tie.user).parameter_bytes));
      if (bytes > 0) tied_.push_back({a, b, bytes});
    }
    for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
      tie_rings_.emplace_back();
      for (const TiedStages& tie : tied_) {
        const std::vector<DeviceName> pair{
            at(stages_, static_cast<int>(vw * depth()) + tie.a).device,
            at(stages_, static_cast<int>(vw * depth()) + tie.b).device};
        tie_rings_.back().emplace_back(network_, pair);
      }
    }
  }

  void add_transfers() {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].activations.clear();
      stages_[s].gradients.clear();
      for (int m = 0; m < plan_.micro_batches; ++m) {
        if (forward_route_[s] >= 0) {
          stages_[s].activations.push_back(
              job_.add_transfer(forward_route_[s], stages_[s].output_bytes, job_.add_signal()));
        }
        if (backward_route_[s] >= 0) {
          stages_[s].gradients.push_back(job_.add_transfer(
              backward_route_[s], stages_[s - 1].output_bytes, job_.add_signal()));
        }
      }
    }
  }

  Rounds add_rounds() {
    Rounds rounds;
    for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
      rounds.ties.emplace_back();
      for (std::size_t t = 0; t < tied_.size(); ++t) {
        const int gpus = stage(static_cast<int>(vw), static_cast<std::size_t>(tied_[t].a)).gpus;
        rounds.ties.back().push_back(tie_rings_[vw][t].add_round(job_, tied_[t].bytes * gpus));
      }
    }
    rounds.barrier = job_.add_signal(static_cast<int>(stages_.size()));
    rounds.end = job_.add_signal(static_cast<int>(stages_.size()));
    for (std::size_t k = 0; k < depth(); ++k) {
      double bytes = 0;  // groups of different sizes: the largest sends most
      for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
        bytes = std::max(bytes, stage(static_cast<int>(vw), k).parameter_bytes);
      }
      rounds.gradients.push_back(gradient_rings_[k].add_round(job_, bytes));
    }
    return rounds;
  }

  void compute(double seconds, const Label& label) {
    job_.compute(seconds);
    labels_.push_back(label);
  }
  void wait(int signal, const Label& label) {
    job_.wait(signal);
    labels_.push_back(label);
  }
  void arrive(int signal) {
    job_.arrive(signal);
    labels_.push_back({});
  }

  // The whole tensor from the parts of the group's GPUs.
  double gather_seconds(const Stage& stage, double bytes) const {
    return stage.gpus == 1 ? 0
                           : bytes * (stage.gpus - 1) / stage.gpus / cluster_.intra_node.bandwidth;
  }

  void play(const Stage& stage, Minibatch minibatch) {
    const StageId k{stage.k};
    const StageActions order =
        megatron_order(static_cast<int>(depth()), k, plan_.micro_batches, minibatch);
    std::vector<bool> forward_done(static_cast<std::size_t>(plan_.micro_batches), false);
    double received = 0;  // bytes, not yet gathered: the pass that uses them does it
    for (const Action& action : order) {
      const auto micro = static_cast<std::size_t>(action.micro);
      switch (action.kind) {
        case ActionKind::forward:
        case ActionKind::backward: {
          const bool forward = action.kind == ActionKind::forward;
          if (received > 0) {
            compute(gather_seconds(stage, received), {Doing::communicating, std::nullopt});
          }
          compute(forward ? stage.forward : stage.backward, {Doing::computing, action});
          forward_done[micro] = forward;
          received = 0;
          break;
        }
        case ActionKind::send:
          // Activations leave between their F and B, gradients after B.
          job_.send(forward_done[micro] ? stage.activations[micro] : stage.gradients[micro],
                    SendMode::buffered);
          labels_.push_back({Doing::communicating, action});
          break;
        case ActionKind::receive: {
          const bool gradient = forward_done[micro];
          const auto from = static_cast<std::size_t>(stage.vw) * depth() +
                            static_cast<std::size_t>(gradient ? stage.k + 1 : stage.k - 1);
          const std::int32_t transfer =
              gradient ? stages_[from].gradients[micro] : stages_[from].activations[micro];
          wait(at(job_.transfers, transfer).signal, {Doing::waiting, action});
          received = at(job_.transfers, transfer).bytes;
          break;
        }
        default:
          ensure(false, "megatron_order makes F, B, S and V");
      }
    }
  }

  void finish(const Stage& stage, const Rounds& rounds, Minibatch minibatch) {
    for (std::size_t t = 0; t < tied_.size(); ++t) {
      if (stage.k != tied_[t].a && stage.k != tied_[t].b) continue;
      const Ring::Round& round = at(rounds.ties, stage.vw)[t];
      arrive(round.join);
      wait(round.done, {});
    }
    arrive(rounds.barrier);
    wait(rounds.barrier, {});
    const Ring::Round& round = at(rounds.gradients, stage.k);
    if (round.join >= 0) {
      arrive(round.join);
      wait(round.done, {});
    }
    compute(stage.update, {Doing::computing, Action{ActionKind::update, minibatch}});
    arrive(rounds.end);
    wait(rounds.end, {});
  }

  double bytes_between_nodes() const {
    const auto replicas = plan_.virtual_workers.size();
    double bytes = 0;
    for (std::size_t k = 0; k < depth(); ++k) {
      std::set<std::string> nodes;
      double largest = 0;
      for (std::size_t vw = 0; vw < replicas; ++vw) {
        const Stage& s = stages_[vw * depth() + k];
        nodes.insert(s.device.node);
        largest = std::max(largest, s.parameter_bytes);
      }
      if (nodes.size() < 2) continue;
      const auto edges = static_cast<double>(nodes.size());
      const auto members = static_cast<double>(replicas);
      bytes += edges * 2 * (members - 1) / members * largest;
    }
    for (std::size_t vw = 0; vw < replicas; ++vw) {
      for (const TiedStages& tie : tied_) {
        const Stage& a = stages_[vw * depth() + static_cast<std::size_t>(tie.a)];
        const Stage& b = stages_[vw * depth() + static_cast<std::size_t>(tie.b)];
        if (a.device.node != b.device.node) bytes += 2 * tie.bytes * a.gpus;
      }
    }
    return bytes;
  }

  void add_row(Simulation& result, const EngineTimes& times, std::size_t s,
               bool keep_events) const {
    const Stage& stage = stages_[s];
    SimulatedStage row;
    row.virtual_worker = stage.vw;
    row.stage = stage.k;
    row.device = stage.device;
    double communication = 0;
    const std::int64_t first = job_.first_op(static_cast<int>(s));
    for (std::int64_t op = first; op < job_.end[s]; ++op) {
      const Label& label = at(labels_, op);
      const double from = at(times.start, op);
      const double to = at(times.end, op);
      if (label.doing == Doing::computing) row.busy_seconds += to - from;
      if (label.doing == Doing::communicating) communication += to - from;
      if (at(job_.ops, op).kind == OpKind::wait) {
        const double moving = at(times.on_the_wire, at(job_.ops, op).index);
        communication += std::max(0.0, to - std::clamp(moving, from, to));
      }
      if (keep_events && label.action) {
        result.events.push_back({static_cast<int>(s), *label.action, from, to});
      }
    }
    row.busy = row.busy_seconds / result.window_seconds;
    row.communication = communication / result.window_seconds;
    row.bubble = std::max(0.0, 1 - row.busy - row.communication);
    row.memory = megatron_stage_ledger(plan_, cluster_, profile_, VirtualWorkerId{stage.vw},
                                       StageId{stage.k})
                     .total();
    result.actions += job_.end[s] - first;
    result.stages.push_back(row);
  }

  struct TiedStages {
    int a = 0;
    int b = 0;
    double bytes = 0;  // of each GPU
  };

  const Plan& plan_;
  const Cluster& cluster_;
  const Profile& profile_;
  EngineJob job_;
  Network network_;
  MegatronConstants constants_;
  std::vector<Stage> stages_;  // virtual worker after virtual worker
  std::vector<Label> labels_;  // [op]
  std::vector<int> forward_route_;
  std::vector<int> backward_route_;
  std::vector<Ring> gradient_rings_;  // [stage]
  std::vector<TiedStages> tied_;
  std::vector<std::vector<Ring>> tie_rings_;  // [vw][tie]
};

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
  Lowering lowering(plan, cluster, profile, constants);
  lowering.lower(iterations);
  return lowering.measure(request, iterations);
}

}  // namespace hetpipe
