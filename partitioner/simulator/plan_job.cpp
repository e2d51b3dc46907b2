// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/plan_job.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "base/huge_pages.h"
#include "base/index.h"
#include "partitioner/schedule/wave_rules.h"
#include "partitioner/simulator/all_reduce.h"
#include "partitioner/simulator/network.h"
#include "partitioner/simulator/recorded_sums.h"
#include "partitioner/simulator/replay.h"
#include "partitioner/simulator/server_traffic.h"

namespace hetpipe {
namespace {

// The actions of every process, one after another, as operations of the engine.
class Builder {
 public:
  Builder(const Plan& plan, const System& system, CostTable& costs, LoweredSchedules& schedules,
          int minibatches, KeepActions keep, bool exchanges, Replay* replay, PlanJob reused)
      : plan_(plan),
        exchanges_(exchanges),
        system_(system),
        costs_(costs),
        keep_(keep),
        replay_(replay),
        passes_(passes_of(system.schedule, plan.micro_batches)),
        result_(std::move(reused)),
        network_(costs.cluster(), result_.engine,
                 costs.cluster().emulated() ? Sharing::queued : Sharing::fair),
        schedules_(schedules) {
    result_.clear();
    result_.minibatches = minibatches;
  }

  PlanJob build() {
    for (std::size_t vw = 0; vw < plan_.virtual_workers.size(); ++vw) {
      workers_.push_back(place_worker(plan_, VirtualWorkerId{static_cast<int>(vw)},
                                      system_.schedule, costs_, result_.processes));
    }
    std::size_t places = 0;
    for (const PlanWorker& worker : workers_) places += worker.places.size();
    const std::size_t messages = at(passes_.actions) * at(result_.minibatches);
    reserve_huge(result_.engine.signals, 2 * places * messages);
    for (std::size_t vw = 0; vw < workers_.size(); ++vw) {
      connect_worker(workers_[vw], plan_.virtual_workers[vw], passes_, result_.minibatches, costs_,
                     result_.processes, network_);
      schedules_of_.push_back(schedule_of(vw));
    }
    add_synchronisation();
    drop_unshared_interfaces(result_.engine);
    const std::size_t marks = result_.processes.size() * at(result_.minibatches);
    result_.computed.assign(marks, -1);
    result_.updated.assign(marks, -1);
    reserve();
    for (std::size_t p = 0; p < result_.processes.size(); ++p) play(static_cast<int>(p));
    if (servers_) {
      result_.complete = servers_->complete();
      result_.gates = servers_->take_gates();
    }
    return std::move(result_);
  }

 private:
  // One past the last minibatch of a virtual worker.
  Minibatch end_of(int virtual_worker) const {
    return replay_ ? replay_->minibatches_of(virtual_worker) : result_.minibatches;
  }
  bool waves() const { return exchanges_ && plan_.server && traits(system_.sync).waves(); }

  std::shared_ptr<const Schedule> schedule_of(std::size_t vw) {
    const PlanVirtualWorker& worker = plan_.virtual_workers[vw];
    ScheduleRequest request = schedule_request(plan_, worker, system_.schedule);
    request.end = end_of(static_cast<int>(vw));
    Lowering how;
    how.sync = waves() ? StageSync::waves : StageSync::all_reduce;
    how.in_flight = waves() ? plan_.in_flight : 1;
    how.round = waves() ? plan_.server->round : 1;
    how.end = request.end;
    for (const PlanStage& stage : worker.stages) {
      how.recompute.push_back(recomputes(stage, system_.weights));
    }
    return schedules_.of(system_.schedule, request, how);
  }

  void add_synchronisation() {
    const ReduceScope scope =
        !traits(system_.sync).waves() ? ReduceScope::everybody : ReduceScope::virtual_worker;
    all_reduce_.emplace(costs_.profile(), result_.processes, scope, network_, result_.minibatches);
    if (replay_ && replay_->has_sums()) {
      recorded_sums_.emplace(costs_.profile(), result_.processes, scope, result_.minibatches,
                             result_.engine);
    }
    result_.sync_bytes_between_nodes = all_reduce_->bytes_between_nodes();
    if (!waves()) return;
    WaveRules rules;
    rules.in_flight = plan_.in_flight;
    rules.round = plan_.server->round;
    rules.distance = plan_.server->clock_distance;
    for (std::size_t vw = 0; vw < workers_.size(); ++vw) {
      rules.end.push_back(end_of(static_cast<int>(vw)));
    }
    servers_.emplace(plan_, system_.sync, rules, costs_.profile(), result_.processes, network_,
                     result_.engine);
    if (replay_) servers_->note_pushes(result_.processes, result_.engine);
    result_.sync_bytes_between_nodes +=
        servers_->bytes_between_nodes() / static_cast<double>(plan_.wave_length());
  }

  const StageActions& actions_of(const PlanProcess& process) const {
    return (*schedules_of_[at(process.virtual_worker)])[at(process.position)];
  }

  // Room for all operations: growing would write all of them twice.
  void reserve() {
    std::size_t operations = 0;
    std::size_t transfers = 0;
    for (const PlanProcess& process : result_.processes) {
      const PlanWorker& worker = workers_[at(process.virtual_worker)];
      const std::size_t actions = actions_of(process).size();
      const StagePlace& place = worker.place(process.position, process.replica);
      const std::size_t pieces = place.activations.size() + place.gradients.size();
      const std::size_t sends = actions / 3 * std::max<std::size_t>(1, pieces) / 2;
      operations += actions + actions / 4 + sends;
      transfers += actions / 4 + sends;
    }
    reserve_huge(result_.engine.ops, operations);
    reserve_huge(result_.engine.transfers, result_.engine.transfers.size() + transfers);
  }

  void play(int index) {
    const PlanProcess& process = result_.processes[at(index)];
    const PlanWorker& worker = workers_[at(process.virtual_worker)];
    const StageActions& actions = actions_of(process);
    result_.computing.push_back(0);
    for (const Action& action : actions) {
      if (keep_ == KeepActions::yes) {
        result_.first_op.push_back(static_cast<std::int64_t>(result_.engine.ops.size()));
        result_.recorded.push_back(action);
        result_.recorded.back().replica = process.replica;
      }
      add_operations(index, process, worker, action);
    }
    result_.actions += static_cast<std::int64_t>(actions.size());
    result_.recorded_end.push_back(static_cast<std::int64_t>(result_.recorded.size()));
    result_.engine.end_process();
  }

  void add_operations(int index, const PlanProcess& process, const PlanWorker& worker,
                      const Action& action) {
    EngineJob& job = result_.engine;
    const int stage = action.chunk * worker.pipeline.positions + process.position;
    const StagePlace& place = worker.place(stage, process.replica);
    const ReplicaTimes& times = place.times;
    switch (action.kind) {
      case ActionKind::forward:
        if (action.micro == 0 && tied_weights_change(action.minibatch) && !ties_recorded()) {
          exchange_tied_weights(worker, place, action.minibatch);
        }
        compute(Timed::forward, place, action, times.forward * passes_.forward);
        break;
      case ActionKind::recompute:
        compute(Timed::recompute, place, action, times.forward * passes_.forward);
        break;
      case ActionKind::backward: {
        double seconds = times.backward;
        if (traits(system_.schedule).backward == BackwardForm::split)
          seconds -= times.weight_gradient;
        compute(Timed::backward, place, action, seconds * passes_.backward);
        mark(result_.computed, index, action);
        break;
      }
      case ActionKind::weight_gradient:
        compute(Timed::weight_gradient, place, action, times.weight_gradient * passes_.backward);
        mark(result_.computed, index, action);
        break;
      case ActionKind::receive: {
        const int signals =
            action.payload == Payload::activations ? place.activations_in : place.gradients_in;
        if (signals < 0) break;
        job.wait(signals + message_of(action), recorded(place, action.payload, action).value_or(0));
        break;
      }
      case ActionKind::send:
        send(worker, place, action);
        break;
      case ActionKind::update:
        if (waves()) hand_over(index, process, worker, action.minibatch);  // replicas alone
        wait_for_sum(index, place, action.minibatch);
        compute(Timed::update, place, action, update_seconds(worker, process));
        mark(result_.updated, index, action);
        break;
      case ActionKind::push:
        if (waves()) {
          servers_->push(job, index, action.minibatch);
        } else {
          hand_over(index, process, worker, action.minibatch);
        }
        break;
      case ActionKind::pull:
        if (const auto seconds = waited(Timed::snapshot, place, action.minibatch, 0)) {
          servers_->pull_recorded(job, index, action.minibatch, *seconds);
        } else {
          servers_->pull(job, index, action.minibatch);
        }
        break;
      case ActionKind::evaluate:
      case ActionKind::checkpoint:
        break;  // not part of a steady pace
    }
  }

  RecordedPlace replica_of(const StagePlace& place) const {
    return {result_.processes[at(place.process)].virtual_worker, place.stage, place.replica};
  }
  void compute(Timed what, const StagePlace& place, const Action& action, double modelled) {
    const double seconds = replay_ ? replay_->computing(what, replica_of(place), action.minibatch,
                                                        action.micro, modelled)
                                   : modelled;
    result_.computing.back() += seconds;
    result_.engine.compute(seconds);
  }
  // Recorded seconds of what is waited for, if there are any.
  std::optional<double> waited(Timed what, const StagePlace& place, Minibatch p, int micro) {
    return replay_ ? replay_->waited(what, replica_of(place), p, micro) : std::nullopt;
  }
  std::optional<double> recorded(const StagePlace& to, Payload payload, const Action& action) {
    return waited(payload == Payload::activations ? Timed::activations : Timed::gradients, to,
                  action.minibatch, action.micro);
  }
  bool ties_recorded() const { return replay_ && replay_->has_messages(); }

  // Its gradients of a minibatch, to those that share its layers.
  void hand_over(int index, const PlanProcess& process, const PlanWorker& worker, Minibatch p) {
    if (!ties_recorded()) add_up_tied(process, worker, p);
    if (!recorded_sums_) {
      all_reduce_->join(result_.engine, index, p);
    } else if (ends_step(process.virtual_worker, p)) {
      recorded_sums_->join(result_.engine, index, p);
    }
  }
  void wait_for_sum(int index, const StagePlace& place, Minibatch p) {
    if (!recorded_sums_) {
      all_reduce_->wait(result_.engine, index, p);
    } else if (const RecordedPlace where = replica_of(place);
               ends_step(where.virtual_worker, p) && !recorded_sums_->alone(index)) {
      recorded_sums_->wait(result_.engine, index, p, replay_->sum(where, p));
    }
  }
  // Its update is a step of the optimizer: the runtime sums for these.
  bool ends_step(int virtual_worker, Minibatch p) const {
    return !traits(system_.weights).update_by_wave || (p + 1) % plan_.in_flight == 0 ||
           p + 1 == end_of(virtual_worker);
  }

  // Before the first F of a minibatch: what it uses of other stages' weights, and what they use.
  bool tied_weights_change(Minibatch p) const {
    return !traits(system_.weights).update_by_wave || p % plan_.in_flight == 0;
  }
  void exchange_tied_weights(const PlanWorker& worker, const StagePlace& place, Minibatch p) {
    if (place.tied_weights_in >= 0) {
      result_.engine.wait(place.tied_weights_in + static_cast<int>(p));
    }
    for (const RoutedPiece& piece : place.tied_weights) {
      send(piece, worker.places[at(piece.to)].tied_weights_in + static_cast<int>(p));
    }
  }

  // Before an update, from the last stage of a process to its first.
  void add_up_tied(const PlanProcess& process, const PlanWorker& worker, Minibatch p) {
    const bool by_wave = traits(system_.weights).update_by_wave;
    if (by_wave && (p + 1) % plan_.in_flight != 0 && p + 1 < end_of(process.virtual_worker)) return;
    for (int c = worker.pipeline.chunks - 1; c >= 0; --c) {
      const StagePlace& place =
          worker.place(c * worker.pipeline.positions + process.position, process.replica);
      if (place.tied_gradients_in >= 0) {
        result_.engine.wait(place.tied_gradients_in + static_cast<int>(p));
      }
      for (const RoutedPiece& piece : place.tied_gradients) {
        send(piece, worker.places[at(piece.to)].tied_gradients_in + static_cast<int>(p));
      }
    }
  }

  // The last operation so far is the one that ends this of the action's minibatch.
  void mark(std::vector<std::int64_t>& marks, int index, const Action& action) const {
    marks[at(index) * at(result_.minibatches) + static_cast<std::size_t>(action.minibatch)] =
        static_cast<std::int64_t>(result_.engine.ops.size()) - 1;
  }

  // Of all chunks.
  double update_seconds(const PlanWorker& worker, const PlanProcess& process) const {
    double seconds = 0;
    for (int c = 0; c < worker.pipeline.chunks; ++c) {
      const int stage = c * worker.pipeline.positions + process.position;
      seconds += worker.place(stage, process.replica).times.update;
    }
    return seconds;
  }

  int message_of(const Action& action) const {
    return static_cast<int>(action.minibatch) * passes_.actions + action.micro;
  }

  void send(const PlanWorker& worker, const StagePlace& place, const Action& action) {
    const bool forward = action.payload == Payload::activations;
    for (const RoutedPiece& piece : forward ? place.activations : place.gradients) {
      const StagePlace& to = worker.places[at(piece.to)];
      const int signal = (forward ? to.activations_in : to.gradients_in) + message_of(action);
      if (recorded(to, action.payload, action)) {
        result_.engine.arrive(signal);
      } else {
        send(piece, signal);
      }
    }
  }
  void send(const RoutedPiece& piece, int signal) {
    EngineJob& job = result_.engine;
    if (piece.route < 0) {
      job.arrive(signal);
    } else {
      job.send(job.add_transfer(piece.route, piece.bytes, signal));
    }
  }

  const Plan& plan_;
  bool exchanges_;
  const System& system_;
  CostTable& costs_;
  KeepActions keep_;
  Replay* replay_;  // null: all times are modelled
  Passes passes_;
  PlanJob result_;
  Network network_;
  std::vector<PlanWorker> workers_;
  LoweredSchedules& schedules_;
  std::vector<std::shared_ptr<const Schedule>> schedules_of_;  // [virtual worker]
  std::optional<AllReduce> all_reduce_;
  std::optional<RecordedSums> recorded_sums_;  // in its place
  std::optional<ServerTraffic> servers_;
};

}  // namespace

void PlanJob::clear() {
  engine.clear();
  minibatches = 0;
  processes.clear();
  computing.clear();
  actions = 0;
  recorded.clear();
  first_op.clear();
  recorded_end.clear();
  computed.clear();
  updated.clear();
  sync_bytes_between_nodes = 0;
  complete.clear();
  gates.clear();
}

PlanJob build_plan_job(const Plan& plan, const System& system, CostTable& costs,
                       LoweredSchedules& schedules, int minibatches, KeepActions keep,
                       bool exchanges, Replay* replay, PlanJob reused) {
  return Builder(plan, system, costs, schedules, minibatches, keep, exchanges, replay,
                 std::move(reused))
      .build();
}

}  // namespace hetpipe
