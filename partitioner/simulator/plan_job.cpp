// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/plan_job.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "partitioner/profile/cut.h"
#include "partitioner/simulator/all_reduce.h"
#include "partitioner/simulator/network.h"
#include "partitioner/simulator/server_traffic.h"

namespace hetpipe {

Pipeline pipeline_of(const PlanVirtualWorker& vw, ScheduleRule rule) {
  const int stages = static_cast<int>(vw.stages.size());
  if (rule != ScheduleRule::interleaved_1f1b) return {stages, 1};
  std::set<DeviceName> devices;
  for (const PlanStage& stage : vw.stages) devices.insert(stage.devices.front());
  const int positions = static_cast<int>(devices.size());
  return {positions, stages / positions};
}

namespace {

// A message, or the piece of one that goes between one replica and another.
struct Piece {
  int route = -1;  // -1: within a device
  double bytes = 0;
  int to = 0;  // place in Worker::places
};

// One replica of one stage.
struct Place {
  ReplicaTimes times;
  int process = 0;
  std::vector<Piece> activations;  // to later stages
  std::vector<Piece> gradients;    // to earlier stages
  int pieces_of_activations = 0;   // that come in
  int pieces_of_gradients = 0;
  int activations_in = -1;  // signal of the first micro-batch's; those of the others follow
  int gradients_in = -1;
};

struct Worker {
  Pipeline pipeline;
  int first_process = 0;
  std::vector<int> first_place;  // [stage]
  std::vector<Place> places;     // by stage, replica
  Schedule schedule;             // [position], lowered
};

class Builder {
 public:
  Builder(const Plan& plan, const System& system, CostTable& costs, int minibatches)
      : plan_(plan),
        system_(system),
        costs_(costs),
        network_(costs.cluster(), result_.engine,
                 costs.cluster().emulated() ? Sharing::queued : Sharing::fair) {
    result_.minibatches = minibatches;
    const bool folded = system.schedule == ScheduleRule::continuous_1f1b;
    micro_batches_ = folded ? 1 : plan.micro_batches;
    forward_passes_ = folded ? plan.micro_batches : 1;
    const bool whole = system.schedule == ScheduleRule::nf1b;
    backward_passes_ = folded || whole ? plan.micro_batches : 1;
  }

  PlanJob build() {
    for (const ProfileLayer& layer : costs_.profile().layers) inputs_.push_back(layer.inputs);
    for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) add_worker(vw);
    for (std::size_t vw = 0; vw < workers_.size(); ++vw) connect(vw);
    const Wave waves = (result_.minibatches + plan_.in_flight - 1) / plan_.in_flight;
    all_reduce_.emplace(
        costs_.profile(), result_.processes,
        system_.sync == SyncRule::all_reduce ? RingScope::everybody : RingScope::virtual_worker,
        network_, result_.minibatches);
    result_.sync_bytes_between_nodes = all_reduce_->bytes_between_nodes();
    if (plan_.server && system_.sync != SyncRule::all_reduce) {
      servers_.emplace(plan_, system_.sync, costs_.profile(), result_.processes, network_,
                       result_.engine, waves);
      result_.sync_bytes_between_nodes += servers_->bytes_between_nodes() / plan_.in_flight;
    }
    drop_unshared_interfaces(result_.engine);
    const std::size_t marks = result_.processes.size() * size_of(result_.minibatches);
    result_.computed.assign(marks, -1);
    result_.updated.assign(marks, -1);
    for (std::size_t p = 0; p < result_.processes.size(); ++p) play(static_cast<int>(p));
    result_.first_op.push_back(static_cast<std::int64_t>(result_.engine.ops.size()));
    return std::move(result_);
  }

 private:
  static std::size_t size_of(int value) { return static_cast<std::size_t>(value); }

  void add_worker(std::size_t vw) {
    const PlanVirtualWorker& planned = plan_.virtual_workers[vw];
    Worker worker;
    worker.pipeline = pipeline_of(planned, system_.schedule);
    worker.first_process = static_cast<int>(result_.processes.size());
    const WorkerTimes times = worker_times(plan_, VirtualWorkerId{static_cast<int>(vw)}, costs_);
    std::vector<int> process_of_position;
    for (int i = 0; i < worker.pipeline.positions; ++i) {
      const PlanStage& stage = planned.stages[size_of(i)];
      process_of_position.push_back(static_cast<int>(result_.processes.size()));
      for (std::size_t r = 0; r < stage.devices.size(); ++r) {
        PlanProcess process;
        process.virtual_worker = static_cast<int>(vw);
        process.position = i;
        process.replica = static_cast<int>(r);
        process.replicas = static_cast<int>(stage.devices.size());
        process.device = stage.devices[r];
        process.kind = times[size_of(i)][r].kind;
        for (int j = i; j < static_cast<int>(planned.stages.size());
             j += worker.pipeline.positions) {
          const PlanStage& chunk = planned.stages[size_of(j)];
          process.layers.emplace_back(chunk.first_layer, chunk.end_layer);
        }
        result_.processes.push_back(std::move(process));
      }
    }
    for (std::size_t j = 0; j < planned.stages.size(); ++j) {
      worker.first_place.push_back(static_cast<int>(worker.places.size()));
      for (std::size_t r = 0; r < times[j].size(); ++r) {
        Place place;
        place.times = times[j][r];
        if (planned.stages[j].recompute || system_.weights == WeightRule::recomputed) {
          place.times.backward += place.times.forward;
        }
        place.process =
            process_of_position[j % size_of(worker.pipeline.positions)] + static_cast<int>(r);
        worker.places.push_back(place);
      }
    }
    worker.first_place.push_back(static_cast<int>(worker.places.size()));
    ScheduleRequest request;
    request.stages = worker.pipeline.positions;
    request.chunks = worker.pipeline.chunks;
    request.micro_batches = plan_.micro_batches;
    request.in_flight = plan_.in_flight;
    request.end = result_.minibatches;
    worker.schedule = lowered(generate(system_.schedule, request), worker.pipeline);
    workers_.push_back(std::move(worker));
  }

  // Routes and pieces: each consuming replica gets its samples from the replicas that hold them.
  void connect(std::size_t vw) {
    Worker& worker = workers_[vw];
    const PlanVirtualWorker& planned = plan_.virtual_workers[vw];
    std::vector<int> ends;
    for (const PlanStage& stage : planned.stages) ends.push_back(stage.end_layer);
    std::map<std::pair<int, int>, int> routes;
    for (const Transfer& transfer : transfers(inputs_, ends)) {
      for (int a = first(worker, transfer.from_stage); a < first(worker, transfer.from_stage + 1);
           ++a) {
        for (int b = first(worker, transfer.to_stage); b < first(worker, transfer.to_stage + 1);
             ++b) {
          Place& from = worker.places[size_of(a)];
          Place& to = worker.places[size_of(b)];
          const int samples = std::min(from.times.first_sample + from.times.samples,
                                       to.times.first_sample + to.times.samples) -
                              std::max(from.times.first_sample, to.times.first_sample);
          if (samples <= 0) continue;
          const LayerCosts& costs = costs_.on(*from.times.kind, from.times.samples);
          double bytes = 0;
          for (const int l : transfer.layers) {
            bytes += static_cast<double>(costs.output_bytes[size_of(l)]);
          }
          bytes *= static_cast<double>(samples) / from.times.samples;
          from.activations.push_back(
              {route(routes, from.process, to.process), bytes * forward_passes_, b});
          to.gradients.push_back(
              {route(routes, to.process, from.process), bytes * backward_passes_, a});
          ++to.pieces_of_activations;
          ++from.pieces_of_gradients;
        }
      }
    }
    const int messages = result_.minibatches * micro_batches_;
    for (Place& place : worker.places) {
      place.activations_in = add_signals(place.pieces_of_activations, messages);
      place.gradients_in = add_signals(place.pieces_of_gradients, messages);
    }
  }

  static int first(const Worker& worker, int stage) { return worker.first_place[size_of(stage)]; }

  // The messages of one directed pair of devices go one after the other: one route per pair.
  int route(std::map<std::pair<int, int>, int>& routes, int from, int to) {
    if (from == to) return -1;
    const auto [at, added] = routes.try_emplace({from, to}, -1);
    if (added) {
      RouteUse use;
      use.process = from;
      use.latencies = forward_passes_;
      at->second = network_.add_route(result_.processes[size_of(from)].device,
                                      result_.processes[size_of(to)].device, use);
    }
    return at->second;
  }

  int add_signals(int needed, int count) {
    if (needed == 0) return -1;
    const int base = static_cast<int>(result_.engine.signals.size());
    result_.engine.signals.resize(size_of(base) + size_of(count), {needed});
    return base;
  }

  // Adds V before and S after F and B where the model has a neighbour there, U after the last
  // computing of a minibatch; where servers keep virtual workers together, P after the U that ends
  // a wave and L before the first F of a wave's last minibatch.
  Schedule lowered(const Schedule& schedule, const Pipeline& pipeline) const {
    const Minibatch wave = plan_.in_flight;
    const Minibatch end = result_.minibatches;
    const bool waves = plan_.server && system_.sync != SyncRule::all_reduce;
    Schedule result(schedule.size());
    for (std::size_t i = 0; i < schedule.size(); ++i) {
      std::vector<std::size_t> last(size_of(result_.minibatches), 0);
      for (std::size_t a = 0; a < schedule[i].size(); ++a) {
        last[static_cast<std::size_t>(schedule[i][a].minibatch)] = a;
      }
      Minibatch gated = -1;
      StageActions& actions = result[i];
      actions.reserve(3 * schedule[i].size());
      for (std::size_t a = 0; a < schedule[i].size(); ++a) {
        const Action& action = schedule[i][a];
        const auto add = [&](ActionKind kind) {
          actions.push_back(action);
          actions.back().kind = kind;
        };
        const int stage = action.chunk * pipeline.positions + static_cast<int>(i);
        const bool front = stage == 0;
        const bool back = stage + 1 == pipeline.positions * pipeline.chunks;
        const Minibatch p = action.minibatch;
        const bool ends_wave = (p + 1) % wave == 0;
        if (action.kind == ActionKind::forward) {
          if (!front) add(ActionKind::receive);
          if (waves && ends_wave && p >= wave && p > gated) {
            gated = p;
            actions.push_back({ActionKind::pull, p});
          }
          actions.push_back(action);
          if (!back) add(ActionKind::send);
        } else if (action.kind == ActionKind::backward) {
          if (!back) add(ActionKind::receive);
          actions.push_back(action);
          if (!front) add(ActionKind::send);
        } else {
          actions.push_back(action);
        }
        if (a != last[static_cast<std::size_t>(p)]) continue;
        actions.push_back({ActionKind::update, p});
        if (waves && (ends_wave || p + 1 == end)) actions.push_back({ActionKind::push, p});
      }
    }
    return result;
  }

  void play(int index) {
    PlanProcess& process = result_.processes[size_of(index)];
    const Worker& worker = workers_[size_of(process.virtual_worker)];
    const StageActions& actions = worker.schedule[size_of(process.position)];
    process.first_action = static_cast<std::int64_t>(result_.actions.size());
    for (std::size_t i = 0; i < actions.size(); ++i) {
      result_.first_op.push_back(static_cast<std::int64_t>(result_.engine.ops.size()));
      result_.actions.push_back(actions[i]);
      result_.actions.back().replica = process.replica;
      add_operations(index, process, worker, actions, i);
    }
    process.end_action = static_cast<std::int64_t>(result_.actions.size());
    result_.engine.end_process();
  }

  void add_operations(int index, const PlanProcess& process, const Worker& worker,
                      const StageActions& actions, std::size_t i) {
    EngineJob& job = result_.engine;
    const Action& action = actions[i];
    const int stage = action.chunk * worker.pipeline.positions + process.position;
    const Place& place = worker.places[size_of(first(worker, stage) + process.replica)];
    const ReplicaTimes& times = place.times;
    const auto mark = [&](std::vector<std::int64_t>& marks) {
      marks[size_of(index) * size_of(result_.minibatches) +
            static_cast<std::size_t>(action.minibatch)] =
          static_cast<std::int64_t>(job.ops.size()) - 1;
    };
    switch (action.kind) {
      case ActionKind::forward:
        job.compute(times.forward * forward_passes_);
        break;
      case ActionKind::recompute:
        job.compute(times.forward * backward_passes_);
        break;
      case ActionKind::backward: {
        double seconds = times.backward;
        if (splits_backward(system_.schedule)) seconds -= times.weight_gradient;
        job.compute(seconds * backward_passes_);
        mark(result_.computed);
        break;
      }
      case ActionKind::weight_gradient:
        job.compute(times.weight_gradient * backward_passes_);
        mark(result_.computed);
        break;
      case ActionKind::receive: {
        const int signals =
            payload(actions, i) == Payload::activations ? place.activations_in : place.gradients_in;
        if (signals >= 0) job.wait(signals + message_of(action));
        break;
      }
      case ActionKind::send:
        send(worker, place, payload(actions, i), message_of(action));
        break;
      case ActionKind::update: {
        all_reduce_->add_to(job, index, action.minibatch);
        double seconds = 0;
        for (int c = 0; c < worker.pipeline.chunks; ++c) {
          const int held = c * worker.pipeline.positions + process.position;
          seconds += worker.places[size_of(first(worker, held) + process.replica)].times.update;
        }
        job.compute(seconds);
        mark(result_.updated);
        break;
      }
      case ActionKind::push:
        servers_->push(job, index, action.minibatch / plan_.in_flight);
        break;
      case ActionKind::pull:
        servers_->pull(job, index, action.minibatch / plan_.in_flight);
        break;
      case ActionKind::evaluate:
      case ActionKind::checkpoint:
        break;  // not part of a steady pace
    }
  }

  int message_of(const Action& action) const {
    return static_cast<int>(action.minibatch) * micro_batches_ + action.micro;
  }

  // As payload_of, in the nearest place where a lowered schedule has it: a send right after its
  // computing, a receive before it with nothing but a pull between.
  static Payload payload(const StageActions& actions, std::size_t i) {
    if (actions[i].kind == ActionKind::send) {
      return actions[i - 1].kind == ActionKind::forward ? Payload::activations : Payload::gradients;
    }
    while (actions[i].kind != ActionKind::forward && actions[i].kind != ActionKind::backward) ++i;
    return actions[i].kind == ActionKind::forward ? Payload::activations : Payload::gradients;
  }

  void send(const Worker& worker, const Place& place, Payload payload, int message) {
    EngineJob& job = result_.engine;
    const bool forward = payload == Payload::activations;
    for (const Piece& piece : forward ? place.activations : place.gradients) {
      const Place& to = worker.places[size_of(piece.to)];
      const int signal = (forward ? to.activations_in : to.gradients_in) + message;
      if (piece.route < 0) {
        job.arrive(signal);
      } else {
        job.send(job.add_transfer(piece.route, piece.bytes, signal));
      }
    }
  }

  const Plan& plan_;
  const System& system_;
  CostTable& costs_;
  PlanJob result_;
  Network network_;
  int micro_batches_ = 1;    // messages and actions per minibatch
  int forward_passes_ = 1;   // micro-batches in one F
  int backward_passes_ = 1;  // and in one B
  std::vector<std::vector<int>> inputs_;
  std::vector<Worker> workers_;
  std::optional<AllReduce> all_reduce_;
  std::optional<ServerTraffic> servers_;
};

}  // namespace

PlanJob build_plan_job(const Plan& plan, const System& system, CostTable& costs, int minibatches) {
  return Builder(plan, system, costs, minibatches).build();
}

}  // namespace hetpipe
