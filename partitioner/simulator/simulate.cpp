// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/simulate.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/plan/placement.h"
#include "partitioner/planners/partition.h"
#include "partitioner/profile/cut.h"
#include "partitioner/schedule/schedule.h"
#include "partitioner/simulator/megatron.h"

namespace hetpipe {
namespace {

constexpr int kMostAhead = 64;  // waves; beyond that a clock distance hardly differs from none

enum class Doing { computing, on_the_wire };

struct Span {
  Doing doing;
  double start;
  double end;
};

struct Message {
  double depart = 0;
  double arrive = 0;
};

// Messages of one directed pair of devices: one after the other, none blocks the sender.
struct Channel {
  int to = 0;  // the stage that receives
  Link link;
  double bytes = 0;  // per message
  int messages = 1;  // per minibatch
  double free = 0;
  std::map<Minibatch, Message> sent;

  Message send(double now, Minibatch p) {
    const double depart = std::max(now, free);
    free = depart + messages * bytes / link.bandwidth;
    return sent[p] = {depart, depart + messages * link.transfer_seconds(bytes)};
  }
};

// What a stage has on one shard.
struct ServerPart {
  std::string node;
  Link push;
  Link pull;
  double bytes = 0;
};

struct Stage {
  DeviceName device;
  double forward = 0, backward = 0, update = 0;  // s per minibatch
  StageActions actions;
  std::size_t next = 0;
  double now = 0;
  std::vector<Channel> activations;  // to later stages
  std::vector<Channel> gradients;    // to earlier stages
  std::vector<ServerPart> parts;     // one per shard that holds some of its layers
  std::map<Wave, Message> pushed;    // the last part to arrive
  std::map<Label, Message> answers;  // the last part of a snapshot to arrive
  std::vector<Span> spans;
  std::map<Minibatch, double> finished;  // end of B
};

using VirtualWorker = std::vector<Stage>;

// The part of a run that is looked at, in minibatches of each virtual worker.
struct Window {
  Minibatch begin = 0;
  Minibatch end = 0;
  Minibatch minibatches = 0;  // that are played
};

class Simulator {
 public:
  Simulator(const Plan& plan, const Cluster& cluster, const Profile& profile)
      : plan_(plan), cluster_(cluster), profile_(profile) {
    for (const ProfileLayer& layer : profile.layers) {
      inputs_.push_back(layer.inputs);
      parameter_bytes_.push_back(layer.shares.empty() ? layer.parameter_bytes : 0);
    }
    if (plan.server) shard_ = shard_of_layers(plan, parameter_bytes_);
    for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
      build(VirtualWorkerId{static_cast<int>(vw)});
    }
  }

  Simulation run(std::optional<int> minibatches) {
    const Window window = window_of(minibatches);
    for (VirtualWorker& vw : workers_) {
      const auto schedule = lower_wsp(
          continuous_1f1b(static_cast<int>(vw.size()), plan_.in_flight, 0, window.minibatches),
          plan_.in_flight, 0, window.minibatches);
      for (std::size_t k = 0; k < vw.size(); ++k) vw[k].actions = schedule[k];
    }
    play();
    return measure(window);
  }

 private:
  void build(VirtualWorkerId id) {
    const Partition partition = evaluate_plan(cluster_, profile_, plan_, id);
    const int micro_batch = plan_.minibatch_of(id) / plan_.micro_batches;
    VirtualWorker vw;
    std::vector<LayerCosts> costs;
    int first = 0;
    for (std::size_t k = 0; k < partition.devices.size(); ++k) {
      Stage stage;
      stage.device = partition.devices[k];
      stage.forward = partition.costs[k].forward_seconds;
      stage.backward = partition.costs[k].backward_seconds;
      costs.push_back(costs_on(profile_, cluster_.kind_of(stage.device), micro_batch));
      for (int l = first; l < partition.ends[k]; ++l) {
        stage.update += costs[k].update[static_cast<std::size_t>(l)];
      }
      if (plan_.server) build_pushes(stage, first, partition.ends[k]);
      first = partition.ends[k];
      vw.push_back(std::move(stage));
    }
    for (const Transfer& transfer : transfers(inputs_, partition.ends)) {
      const auto from = static_cast<std::size_t>(transfer.from_stage);
      const auto to = static_cast<std::size_t>(transfer.to_stage);
      double bytes = 0;
      for (const int l : transfer.layers) {
        bytes += static_cast<double>(costs[from].output_bytes[static_cast<std::size_t>(l)]);
      }
      vw[from].activations.push_back({transfer.to_stage,
                                      cluster_.link(vw[from].device, vw[to].device),
                                      bytes,
                                      plan_.micro_batches,
                                      0,
                                      {}});
      vw[to].gradients.push_back({transfer.from_stage,
                                  cluster_.link(vw[to].device, vw[from].device),
                                  bytes,
                                  plan_.micro_batches,
                                  0,
                                  {}});
    }
    workers_.push_back(std::move(vw));
  }

  // A group of GPUs moves the parameters of each of them.
  void build_pushes(Stage& stage, int first, int end) const {
    std::map<int, double> bytes;
    const int gpus = cluster_.kind_of(stage.device).gpus;
    for (int l = first; l < end; ++l) {
      const auto at = static_cast<std::size_t>(l);
      if (shard_[at] >= 0) bytes[shard_[at]] += static_cast<double>(gpus * parameter_bytes_[at]);
    }
    for (const auto& [shard, size] : bytes) {
      const DeviceName server{plan_.server->nodes[static_cast<std::size_t>(shard)], -1};
      stage.parts.push_back({server.node, cluster_.link(stage.device, server),
                             cluster_.link(server, stage.device), size});
    }
  }

  Window window_of(std::optional<int> asked) const {
    const Minibatch wave = plan_.in_flight;
    std::size_t stages = 1;
    for (const VirtualWorker& vw : workers_) stages = std::max(stages, vw.size());
    // Waves to fill or drain the pipeline, and those that a faster virtual worker may be ahead.
    const Minibatch edge = static_cast<Minibatch>(stages) / wave + 1 +
                           (plan_.server ? std::min(plan_.server->clock_distance, kMostAhead) : 0);
    const Minibatch warm_up = edge + 2;
    const Minibatch steady = std::max<Minibatch>(8, 48 / wave);
    const Minibatch minibatches = asked ? *asked : (warm_up + steady + edge) * wave;
    const Minibatch waves = minibatches / wave;
    if (waves > warm_up + edge) return {warm_up * wave, (waves - edge) * wave, minibatches};
    return {wave, minibatches, minibatches};
  }

  // The stage that is earliest in time goes first, among those whose next action waits for nothing
  // unknown: so whoever comes first gets a server's interface first.
  void play() {
    std::vector<std::pair<VirtualWorker*, std::size_t>> stages;
    for (VirtualWorker& vw : workers_) {
      for (std::size_t k = 0; k < vw.size(); ++k) stages.emplace_back(&vw, k);
    }
    const auto now_of = [](const auto& of) { return (*of.first)[of.second].now; };
    bool moved = true;
    while (moved) {
      std::stable_sort(stages.begin(), stages.end(),
                       [&](const auto& a, const auto& b) { return now_of(a) < now_of(b); });
      moved = std::any_of(stages.begin(), stages.end(), [&](const auto& of) {
        Stage& stage = (*of.first)[of.second];
        if (stage.next == stage.actions.size() || !act(*of.first, of.second)) return false;
        ++stage.next;
        return true;
      });
    }
    for (const VirtualWorker& vw : workers_) {
      for (const Stage& stage : vw) {
        ensure(stage.next == stage.actions.size(), "the simulated schedule comes to its end");
      }
    }
  }

  bool act(VirtualWorker& vw, std::size_t k) {
    Stage& stage = vw[k];
    const Action& action = stage.actions[stage.next];
    const Minibatch p = action.minibatch;
    switch (action.kind) {
      case ActionKind::receive:
        return receive(vw, k);
      case ActionKind::forward:
        compute(stage, stage.forward);
        return true;
      case ActionKind::backward:
        compute(stage, stage.backward);
        stage.finished[p] = stage.now;
        return true;
      case ActionKind::update:
        compute(stage, stage.update);
        return true;
      case ActionKind::send: {
        const bool forward = payload_of(stage.actions, stage.next) == Payload::activations;
        for (Channel& channel : forward ? stage.activations : stage.gradients) {
          channel.send(stage.now, p);
        }
        return true;
      }
      case ActionKind::push: {
        Message last{stage.now, stage.now};
        for (const ServerPart& part : stage.parts) {
          const Message message =
              over_interface(into_server_[part.node], part.push, part.bytes, stage.now);
          if (message.arrive > last.arrive) last = message;
        }
        stage.pushed[p / plan_.in_flight] = last;
        return true;
      }
      case ActionKind::pull:
        return pull(stage, k, p / plan_.in_flight);
      default:
        return true;
    }
  }

  static void compute(Stage& stage, double seconds) {
    stage.spans.push_back({Doing::computing, stage.now, stage.now + seconds});
    stage.now += seconds;
  }

  static void wait_for(Stage& stage, const Message& message) {
    if (message.arrive <= stage.now) return;
    stage.spans.push_back(
        {Doing::on_the_wire, std::max(stage.now, message.depart), message.arrive});
    stage.now = message.arrive;
  }

  bool receive(VirtualWorker& vw, std::size_t k) {
    Stage& stage = vw[k];
    const Minibatch p = stage.actions[stage.next].minibatch;
    const bool forward = payload_of(stage.actions, stage.next) == Payload::activations;
    std::vector<Message> arriving;
    for (const Stage& other : vw) {
      for (const Channel& channel : forward ? other.activations : other.gradients) {
        if (channel.to != static_cast<int>(k)) continue;
        const auto message = channel.sent.find(p);
        if (message == channel.sent.end()) return false;
        arriving.push_back(message->second);
      }
    }
    std::sort(arriving.begin(), arriving.end(),
              [](const Message& a, const Message& b) { return a.arrive < b.arrive; });
    for (const Message& message : arriving) wait_for(stage, message);
    return true;
  }

  // One message after the other through a server's interface.
  static Message over_interface(double& free, const Link& link, double bytes, double now) {
    const double depart = std::max(now, free);
    free = depart + bytes / link.bandwidth;
    return {depart, free + link.latency};
  }

  // Every stage asks ahead, so a label is answered as soon as it is complete, front stages first.
  // False while a push that it needs has no time yet.
  bool answer(Label label) {
    if (workers_.front().front().answers.contains(label)) return true;
    double complete = 0;
    std::size_t deepest = 0;
    for (const VirtualWorker& vw : workers_) {
      deepest = std::max(deepest, vw.size());
      for (const Stage& stage : vw) {
        const auto message = stage.pushed.find(label - 1);
        if (message == stage.pushed.end()) return false;
        complete = std::max(complete, message->second.arrive);
      }
    }
    complete_[label] = complete;
    for (std::size_t k = 0; k < deepest; ++k) {
      for (VirtualWorker& vw : workers_) {
        if (k >= vw.size()) continue;
        Message last{complete, complete};
        for (const ServerPart& part : vw[k].parts) {
          const Message message =
              over_interface(out_of_server_[part.node], part.pull, part.bytes, complete);
          if (message.arrive > last.arrive) last = message;
        }
        vw[k].answers[label] = last;
      }
    }
    return true;
  }

  // The gate stands at stage 0: a question and an answer. The label travels on with the
  // activations.
  bool pull(Stage& stage, std::size_t k, Wave wave) {
    if (!plan_.server) return true;
    const Label label = wave - plan_.server->clock_distance;
    if (label <= 0) return true;
    if (!answer(label)) return false;
    const double asked = stage.now;
    wait_for(stage, stage.answers.at(label));
    if (k == 0 && !stage.parts.empty()) {
      const ServerPart& clock = stage.parts.front();
      wait_for(stage, {asked, std::max(asked + clock.push.latency, complete_.at(label)) +
                                  clock.pull.latency});
    }
    return true;
  }

  Simulation measure(const Window& window) const {
    Simulation result;
    double start = 0;
    double end = 0;
    for (std::size_t vw = 0; vw < workers_.size(); ++vw) {
      const auto& finished = workers_[vw].front().finished;
      start = std::max(start, finished.at(window.begin - 1));
      end = std::max(end, finished.at(window.end - 1));
      result.global_batch += plan_.minibatch_of(VirtualWorkerId{static_cast<int>(vw)});
    }
    result.window_seconds = end - start;
    result.iteration_seconds = (end - start) / static_cast<double>(window.end - window.begin);
    result.throughput = result.global_batch / result.iteration_seconds;
    for (std::size_t vw = 0; vw < workers_.size(); ++vw) {
      for (std::size_t k = 0; k < workers_[vw].size(); ++k) {
        const Stage& stage = workers_[vw][k];
        SimulatedStage out;
        out.virtual_worker = static_cast<int>(vw);
        out.stage = static_cast<int>(k);
        out.device = stage.device;
        double wire = 0;
        for (const Span& span : stage.spans) {
          const double inside =
              std::max(0.0, std::min(span.end, end) - std::max(span.start, start));
          (span.doing == Doing::computing ? out.busy_seconds : wire) += inside;
        }
        out.busy = out.busy_seconds / result.window_seconds;
        out.communication = wire / result.window_seconds;
        out.bubble = std::max(0.0, 1 - out.busy - out.communication);
        out.memory = stage_ledger(plan_, cluster_, profile_, VirtualWorkerId{static_cast<int>(vw)},
                                  StageId{static_cast<int>(k)})
                         .total();
        result.stages.push_back(out);
      }
    }
    return result;
  }

  const Plan& plan_;
  const Cluster& cluster_;
  const Profile& profile_;
  std::vector<std::vector<int>> inputs_;
  std::vector<std::int64_t> parameter_bytes_;
  std::vector<int> shard_;
  std::vector<VirtualWorker> workers_;
  std::map<std::string, double> into_server_;  // node -> when its interface is free again
  std::map<std::string, double> out_of_server_;
  std::map<Label, double> complete_;  // when all waves below it are in
};

}  // namespace

Simulation simulate(const Plan& plan, const Cluster& cluster, const Profile& profile,
                    const SimulationRequest& request) {
  const std::optional<int>& minibatches = request.minibatches;
  if (plan.runtime == "megatron-deepspeed") {
    return simulate_megatron(plan, cluster, profile, request);
  }
  check_plan(plan, "plan", &cluster, static_cast<int>(profile.layers.size()));
  if (plan.system != "hetpipe" || !plan.runtime.empty()) {
    throw UserError("", "system '" + plan.system + "'" +
                            (plan.runtime.empty() ? "" : " with runtime '" + plan.runtime + "'") +
                            " cannot be simulated (this release knows hetpipe in its own runtime). "
                            "Use a plan of that system.");
  }
  if (!plan.server && plan.virtual_workers.size() > 1) {
    throw UserError(
        "", format("the plan has %zu virtual workers and no [parameter_server] (it keeps them "
                   "together). Add one.",
                   plan.virtual_workers.size()));
  }
  if (minibatches && *minibatches < 2 * plan.in_flight) {
    throw UserError("--minibatches",
                    format("%d is too few (two waves of %d minibatches show a steady "
                           "pace). Ask for at least %d.",
                           *minibatches, plan.in_flight, 2 * plan.in_flight));
  }
  return Simulator(plan, cluster, profile).run(minibatches);
}

}  // namespace hetpipe
