// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/plan_workers.h"

#include <algorithm>
#include <map>

#include "base/index.h"
#include "partitioner/profile/cut.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

// The messages of one directed pair of devices go one after the other: one route per pair.
class PairRoutes {
 public:
  PairRoutes(std::span<const PlanProcess> processes, int latencies, Network& network)
      : processes_(processes), latencies_(latencies), network_(network) {}

  int between(int from, int to) {
    if (from == to) return -1;
    const auto [route, added] = routes_.try_emplace({from, to}, -1);
    if (added) {
      route->second = network_.add_route(processes_[at(from)].device, processes_[at(to)].device,
                                         {from, static_cast<double>(latencies_), 0});
    }
    return route->second;
  }

 private:
  std::span<const PlanProcess> processes_;
  int latencies_;
  Network& network_;
  std::map<std::pair<int, int>, int> routes_;
};

// Samples of a micro-batch that both work on.
int common_samples(const ReplicaTimes& a, const ReplicaTimes& b) {
  return std::min(a.first_sample + a.samples, b.first_sample + b.samples) -
         std::max(a.first_sample, b.first_sample);
}

int add_signals(EngineJob& job, int needed, int count) {
  if (needed == 0) return -1;
  const int base = static_cast<int>(job.signals.size());
  job.signals.resize(at(base) + at(count), {needed});
  return base;
}

}  // namespace

Passes passes_of(ScheduleRule rule, int micro_batches) {
  if (traits(rule).whole_minibatches) return {1, micro_batches, micro_batches};
  const bool all = traits(rule).backward == BackwardForm::by_minibatch;
  return {micro_batches, 1, all ? micro_batches : 1};
}

void add_processes(const Plan& plan, VirtualWorkerId vw, ScheduleRule rule,
                   std::vector<PlanProcess>& processes) {
  const PlanVirtualWorker& planned = plan.virtual_workers[at(vw.value)];
  const int positions = pipeline_of(planned, rule).positions;
  for (int i = 0; i < positions; ++i) {
    const PlanStage& stage = planned.stages[at(i)];
    for (std::size_t r = 0; r < stage.devices.size(); ++r) {
      PlanProcess process;
      process.virtual_worker = vw.value;
      process.position = i;
      process.replica = static_cast<int>(r);
      process.replicas = static_cast<int>(stage.devices.size());
      process.device = stage.devices[r];
      for (std::size_t j = at(i); j < planned.stages.size(); j += at(positions)) {
        process.layers.emplace_back(planned.stages[j].first_layer, planned.stages[j].end_layer);
      }
      processes.push_back(std::move(process));
    }
  }
}

PlanWorker place_worker(const Plan& plan, VirtualWorkerId vw, ScheduleRule rule, CostTable& costs,
                        std::vector<PlanProcess>& processes) {
  const PlanVirtualWorker& planned = plan.virtual_workers[at(vw.value)];
  PlanWorker worker;
  worker.pipeline = pipeline_of(planned, rule);
  const int positions = worker.pipeline.positions;
  const WorkerTimes times = worker_times(plan, vw, costs);
  std::vector<int> process_of_position;
  const std::size_t before = processes.size();
  add_processes(plan, vw, rule, processes);
  for (std::size_t p = before; p < processes.size(); ++p) {
    PlanProcess& process = processes[p];
    if (process.replica == 0) process_of_position.push_back(static_cast<int>(p));
    process.kind = times[at(process.position)][at(process.replica)].kind;
  }
  for (std::size_t j = 0; j < planned.stages.size(); ++j) {
    worker.first_place.push_back(static_cast<int>(worker.places.size()));
    for (std::size_t r = 0; r < times[j].size(); ++r) {
      StagePlace place;
      place.times = times[j][r];
      place.process = process_of_position[j % at(positions)] + static_cast<int>(r);
      place.stage = static_cast<int>(j);
      place.replica = static_cast<int>(r);
      worker.places.push_back(std::move(place));
    }
  }
  worker.first_place.push_back(static_cast<int>(worker.places.size()));
  return worker;
}

void connect_worker(PlanWorker& worker, const PlanVirtualWorker& planned, const Passes& passes,
                    int minibatches, CostTable& costs, std::span<const PlanProcess> processes,
                    Network& network) {
  std::vector<int> ends;
  for (const PlanStage& stage : planned.stages) ends.push_back(stage.end_layer);
  PairRoutes routes(processes, passes.forward, network);
  std::vector<int> activations_in(worker.places.size(), 0);  // pieces that make up a message
  std::vector<int> gradients_in(worker.places.size(), 0);
  for (const Transfer& transfer : transfers(costs.profile(), ends)) {
    for (int a = worker.first(transfer.from_stage); a < worker.first(transfer.from_stage + 1);
         ++a) {
      for (int b = worker.first(transfer.to_stage); b < worker.first(transfer.to_stage + 1); ++b) {
        StagePlace& from = worker.places[at(a)];
        StagePlace& to = worker.places[at(b)];
        const int samples = common_samples(from.times, to.times);
        if (samples <= 0) continue;
        const LayerCosts& layer = costs.on(*from.times.kind, from.times.samples);
        double bytes = 0;
        double more_gradients = 0;
        for (const int l : transfer.layers) {
          bytes += static_cast<double>(layer.output_bytes[at(l)]);
        }
        for (const int l : transfer.more_gradients) {
          more_gradients += static_cast<double>(layer.output_bytes[at(l)]);
        }
        bytes *= static_cast<double>(samples) / from.times.samples;
        more_gradients *= static_cast<double>(samples) / from.times.samples;
        from.activations.push_back(
            {routes.between(from.process, to.process), bytes * passes.forward, b});
        to.gradients.push_back({routes.between(to.process, from.process),
                                (bytes + more_gradients) * passes.backward, a});
        ++activations_in[at(b)];
        ++gradients_in[at(a)];
      }
    }
  }
  std::vector<int> tied_weights_in(worker.places.size(), 0);
  std::vector<int> tied_gradients_in(worker.places.size(), 0);
  const TiedTransfers tied = tied_transfers(tied_weights(costs.profile()), ends);
  // Each replica of the later of two stages deals with one of the earlier.
  const auto for_each_pair = [&](int earlier, int later, const auto& visit) {
    const int replicas = worker.first(earlier + 1) - worker.first(earlier);
    for (int b = worker.first(later); b < worker.first(later + 1); ++b) {
      visit(worker.first(earlier) + (b - worker.first(later)) % replicas, b);
    }
  };
  const auto bytes_of = [&](const TiedTransfer& way, int place) {
    return static_cast<double>(worker.places[at(place)].times.kind->gpus * way.bytes);
  };
  for (const TiedTransfer& way : tied.weights) {
    for_each_pair(way.from_stage, way.to_stage, [&](int owner, int user) {
      StagePlace& from = worker.places[at(owner)];
      from.tied_weights.push_back({routes.between(from.process, worker.places[at(user)].process),
                                   bytes_of(way, owner), user});
      ++tied_weights_in[at(user)];
    });
  }
  for (const TiedTransfer& way : tied.gradients) {
    for_each_pair(way.to_stage, way.from_stage, [&](int before, int user) {
      StagePlace& from = worker.places[at(user)];
      from.tied_gradients.push_back(
          {routes.between(from.process, worker.places[at(before)].process), bytes_of(way, user),
           before});
      ++tied_gradients_in[at(before)];
    });
  }
  const int messages = minibatches * passes.actions;
  for (std::size_t i = 0; i < worker.places.size(); ++i) {
    StagePlace& place = worker.places[i];
    place.activations_in = add_signals(network.job(), activations_in[i], messages);
    place.gradients_in = add_signals(network.job(), gradients_in[i], messages);
    place.tied_weights_in = add_signals(network.job(), tied_weights_in[i], minibatches);
    place.tied_gradients_in = add_signals(network.job(), tied_gradients_in[i], minibatches);
  }
}

}  // namespace hetpipe
