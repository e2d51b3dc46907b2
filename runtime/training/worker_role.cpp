// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/worker_role.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "base/index.h"
#include "kernels/devices.h"
#include "partitioner/cost/memory_bound.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/plan/staleness.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/counts.h"
#include "partitioner/simulator/stage_times.h"
#include "runtime/data/prefetch.h"
#include "runtime/pipeline/batch_memory.h"
#include "runtime/pipeline/worker.h"
#include "runtime/sync/server_client.h"
#include "runtime/training/groups.h"
#include "runtime/training/messages.h"
#include "runtime/training/simulated_time.h"
#include "runtime/training/test_batches.h"
#include "runtime/transport/channel_lanes.h"
#include "runtime/transport/device_transport.h"

namespace hetpipe {
namespace {

constexpr Rank kReporter{0};

// Which samples each replica of each stage takes.
SampleSplit split_of(const Plan& plan, VirtualWorkerId vw) {
  std::vector<std::vector<int>> shares;
  for (const PlanStage& stage : plan.virtual_workers[at(vw.value)].stages) {
    shares.push_back(samples_of_replicas(stage, plan.minibatch_of(vw) / plan.micro_batches));
  }
  return {plan.micro_batches, std::move(shares)};
}

// Whether some stage computes with another one's parameters.
bool ties_stages(const Model& model, const PlanVirtualWorker& vw) {
  return std::any_of(vw.stages.begin(), vw.stages.end(), [&](const PlanStage& stage) {
    return !ParameterLayout::parameters(model, stage.first_layer, stage.end_layer)
                .foreign()
                .empty();
  });
}

// The prediction steps of a stage, where the plan's weights are predicted.
WeightPolicy policy_for(const Plan& plan, const PlanVirtualWorker& vw, StageId stage) {
  VersionDifference steps;
  for (const PlanStaleness& of : plan_staleness(plan)) {
    if (of.stages != static_cast<int>(vw.stages.size()) || of.forward.empty()) continue;
    steps = {of.forward[at(stage.value)], of.backward[at(stage.value)]};
  }
  return policy_of(plan, steps.forward, steps.backward);
}

std::vector<StagePace> paces_of(const TrainJob& job, const Role::Worker& role) {
  std::vector<StagePace> paces(role.stages.size());
  if (!job.emulates() || !job.cluster->kind_of(role.device).emulate) return paces;
  CostTable costs(*job.cluster, *job.profile, updates_of(job.plan));
  const WorkerTimes times = worker_times(job.plan, role.virtual_worker, costs);
  for (std::size_t c = 0; c < role.stages.size(); ++c) {
    const ReplicaTimes& of = times[at(role.stages[c].value)][at(role.replica)];
    paces[c] = {of.forward, of.backward, of.weight_gradient, of.update, of.samples};
  }
  return paces;
}

// What the rank's stages read of the data: samples, labels, both, nothing.
std::optional<Parts> parts_for(const std::vector<Stage*>& chunks) {
  bool images = false;
  bool labels = false;
  for (const Stage* chunk : chunks) {
    images |= chunk->reads_samples();
    labels |= chunk->has_loss();
  }
  if (images) return labels ? Parts::both : Parts::images;
  if (labels) return Parts::labels;
  return std::nullopt;
}

// The test set, dealt out to the virtual workers in its own order: every sample once, by batches of
// as many samples as each one's micro-batches have, which is what fits its devices.
Sampler deal_test_set(const TrainJob& job) {
  std::vector<int> batches;
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    batches.push_back(job.plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)}) /
                      job.plan.micro_batches);
  }
  return Sampler(job.seed, std::max<std::int64_t>(job.test_size, 1), std::move(batches), 0,
                 job.test_size);
}

// The stages of a rank on their device, and what they start from.
struct Built {
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::vector<std::unique_ptr<Stage>> stages;
  std::vector<Stage*> chunks;
  FlatState start;
};

Built build(const TrainValues& common, const Role::Worker& role, const RankDevice& device,
            const std::string& plan_cache) {
  const TrainJob& job = common.job;
  Built built;
  built.device = make_device(device.name, job.threads, {device.gpu, device.precision, plan_cache});
  if (job.cluster && (job.time || job.cluster->kind_of(role.device).emulate)) {
    const DeviceKind& kind = job.cluster->kind_of(role.device);
    built.device->memory().set_budget(
        static_cast<std::size_t>(kind.memory * kind.gpus),
        to_string(role.device) + " (" + kind.name + (job.time ? ", simulated)" : ", emulated)"));
  }
  built.stream = built.device->make_stream();
  const PlanVirtualWorker& vw = job.plan.virtual_workers[at(role.virtual_worker.value)];
  const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const StageId id : role.stages) {
    built.stages.push_back(std::make_unique<Stage>(common.model, stage_ends(vw), id, job.seed,
                                                   *built.device, *built.stream));
    built.chunks.push_back(built.stages.back().get());
    const FlatState start = common.start_of_stage(role.virtual_worker, id);
    append(built.start.parameters, start.parameters);
    append(built.start.statistics, start.statistics);
    append(built.start.average, start.average);
    built.start.slots.resize(start.slots.size());
    for (std::size_t slot = 0; slot < start.slots.size(); ++slot) {
      append(built.start.slots[slot], start.slots[slot]);
    }
  }
  return built;
}

WorkerPlace place_of(const TrainValues& common, const Role::Worker& role, const Roles& roles) {
  const Plan& plan = common.job.plan;
  const System system = composition(plan);
  const int worker = role.virtual_worker.value;
  WorkerPlace place;
  place.virtual_worker = role.virtual_worker;
  place.position = role.stage().value;
  place.replica = role.replica;
  place.ranks = roles.worker[at(worker)];
  place.stage_end = stage_ends(plan.virtual_workers[at(worker)]);
  place.split = split_of(plan, role.virtual_worker);
  const ScheduleTraits& schedule = traits(system.schedule);
  place.whole_minibatches = schedule.whole_minibatches;
  place.backward_by_minibatch = schedule.backward == BackwardForm::by_minibatch;
  place.minibatch = plan.minibatch_of(role.virtual_worker);
  place.samples = [&sampler = common.sampler, worker](Minibatch p) -> std::int64_t {
    return sampler.samples(worker, p).count;
  };
  place.schedule = std::make_shared<const PeriodicSchedule>(
      worker_schedule(common.job, common.planned, role.virtual_worker));
  return place;
}

// Sizes of the passes of this rank's stages. Of the minibatches of a worker the last alone may be
// smaller, and so of the batches of an evaluation.
StepSizes step_sizes(const TrainValues& common, const Role::Worker& role, const WorkerPlace& place,
                     const Sampler& dealt) {
  const int worker = role.virtual_worker.value;
  StepSizes sizes;
  for (const StageId stage : role.stages) {
    std::set<std::int64_t>& train = sizes.train.emplace_back();
    const Minibatch first = common.rules.start_minibatch(), end = common.rules.end[at(worker)];
    for (const Minibatch p : {first, end - 1}) {
      if (p < first) continue;
      for (int m = 0; m < place.split.micro_batches(); ++m) {
        train.insert(place.split.of(place.samples(p), m, stage.value, place.replica).count());
      }
    }
    std::set<std::int64_t>& evaluate = sizes.evaluate.emplace_back();
    for (const std::int64_t b : {std::int64_t{0}, dealt.count(worker) - 1}) {
      if (b < 0 || dealt.count(worker) == 0) continue;
      const std::int64_t samples = dealt.samples(worker, b).count;
      evaluate.insert(place.split.whole(samples, stage.value, place.replica).count());
    }
    train.erase(0);
    evaluate.erase(0);
  }
  return sizes;
}

// Of the minibatches that are assembled ahead, of the next one, and of those that are being played
// or copied.
void reserve_batches(const BatchMemory& memory, const Batch& first) {
  if (!first.images.empty()) memory.reserve(first.images.bytes(), Prefetcher::kDepth + 4);
}

// Lanes of staged messages (runtime/transport/staging.h): a push and a pull for each server, and
// all channels between devices, each way, for each peer that no link of NCCL's leads to.
int staged_lanes(const TrainValues& common, const RankSetting& setting, Rank self) {
  int lanes = 2 * static_cast<int>(setting.roles.server.size());
  for (const auto& [a, b] : path_pairs(common, setting.roles)) {
    const bool own = a == self || b == self;
    if (own && candidate(common.job, setting, a, b).kind != PathKind::nccl) {
      lanes += 2 * kChannelLanes;
    }
  }
  return lanes;
}

// Samples whose mean loss one update follows.
std::int64_t loss_samples(const TrainValues& common, int worker, Minibatch p, bool by_wave) {
  if (has_waves(common.job.plan)) return common.sampler.samples(worker, p).count;
  const WaveRules& rules = common.rules;
  const Minibatch first = by_wave ? rules.wave_of(p) * rules.in_flight : p;
  const Minibatch end = by_wave ? first + rules.in_flight : p + 1;
  std::int64_t samples = 0;
  for (int i = 0; i < common.sampler.workers(); ++i) {
    for (Minibatch q = first; q < end; ++q) samples += common.sampler.samples(i, q).count;
  }
  return samples;
}

}  // namespace

void run_worker(const TrainValues& common, const Role::Worker& role, const RankSetting& setting,
                RankService& service, SharedBlocks& blocks, const WorkerCompany& company) {
  const TrainJob& job = common.job;
  const OptimizerOptions of_stages = optimizer_of_stages(job);
  const int worker = role.virtual_worker.value;
  const PlanVirtualWorker& vw = job.plan.virtual_workers[at(worker)];
  const System system = composition(job.plan);
  service.begin("building its stage and reading data", Doing::long_phase);

  Built built = build(common, role, setting.devices[at(service.transport().rank().value)],
                      setting.plan_cache);
  std::vector<OptimizedParameter> parameters;
  for (const Stage* chunk : built.chunks) {
    for (const OptimizedParameter& of :
         optimized_parameters(chunk->parameters(), of_stages.vectors_decay, of_stages.rates)) {
      parameters.push_back(of);
    }
  }
  WorkerSetup setup;
  setup.place = place_of(common, role, setting.roles);
  for (const auto& replicas : setup.place.ranks) {
    auto& types = setup.place.element_types.emplace_back();
    for (const Rank rank : replicas) {
      types.push_back(element_of(setting.devices[at(rank.value)].precision));
    }
  }
  setup.policy = policy_for(job.plan, vw, role.stage());
  const bool plays = common.rules.end[at(worker)] > common.rules.start_minibatch();
  const ExactWeights* exact = common.exact_of_stage(role.virtual_worker, role.stage());
  const std::unique_ptr<LocalWeights> weights =
      exact != nullptr && plays
          ? std::make_unique<LocalWeights>(*built.device, *built.stream, common.rules, *exact,
                                           push_type(job.plan))
          : std::make_unique<LocalWeights>(*built.device, *built.stream, common.rules,
                                           setup.policy.visible, built.start.parameters,
                                           push_type(job.plan));
  setup.servers_in_reach =
      static_cast<int>(std::count_if(setting.roles.server.begin(), setting.roles.server.end(),
                                     [&](Rank server) { return blocks.reaches(server); }));
  if (setup.servers_in_reach > 0) {  // servers add the sums from where they lie
    weights->push_from([&](std::size_t bytes) {
      const auto memory =
          blocks.take(static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float)));
      return Buffer(*built.device, *built.stream, reinterpret_cast<std::byte*>(memory.get()), bytes,
                    MemoryKind::messages, memory);
    });
  }
  Optimizer optimizer(of_stages, *built.device, *built.stream, parameters);
  if (common.checkpoint) {
    for (std::size_t slot = 0; slot < built.start.slots.size(); ++slot) {
      optimizer.load_slot(slot, built.start.slots[slot]);
    }
  }
  const auto paths = std::make_shared<RankPaths>(
      *built.device, *built.stream, setting.devices[at(service.transport().rank().value)].gpu,
      job.nccl_blocks, service, company.path_words);
  service.also_poll([weak = std::weak_ptr<RankPaths>(paths)] {
    if (const auto alive = weak.lock()) alive->take_words();
  });
  const auto transport =
      std::make_shared<DeviceTransport>(service.transport(), *built.device, *built.stream);
  service.also_move([weak = std::weak_ptr<DeviceTransport>(transport), &service] {
    const auto alive = weak.lock();
    if (alive && alive->poll()) service.note_work();
  });
  CheckpointSender parts(setting.roles.coordinator(),
                         common.parts.of_stage(role.virtual_worker, role.stage()), service);
  const auto synchronizer = [&]() -> std::unique_ptr<Synchronizer> {
    if (has_waves(job.plan)) {
      return std::make_unique<ServerClient>(
          role.virtual_worker, *built.chunks.front(), common.rules, common.map,
          setting.roles.server, common.checkpoints, parts, *transport, service, *company.gates,
          blocks, stage_replica(common, setting.roles, role), company.hold, push_type(job.plan));
    }
    return std::make_unique<GroupSynchronizer>(
        group_setup(common, setting.roles, role, company.stop), common.rules, *transport, service);
  }();

  const std::optional<Parts> needed = parts_for(built.chunks);
  const auto open = [&](Split split) {
    Dataset data = setting.open_data(split, *needed);
    weigh_labels(data, common.model);
    return data;
  };
  Dataset train = needed ? open(Split::train) : Dataset{};
  train.mixes = job.mixes;
  const Dataset test = needed && job.test_size > 0 ? open(Split::test) : Dataset{};
  const double test_weight = mean_label_weight(test);
  const BatchMemory memory_of_batches(*built.device);
  const SampleMemory memory =
      built.device->host_memory() ? SampleMemory(ordinary_memory) : SampleMemory(memory_of_batches);
  const auto assemble = [&](Minibatch p) {
    std::vector<SampleSpan> spans;
    const std::int64_t samples = common.sampler.samples(worker, p).count;
    for (int m = 0; m < job.plan.micro_batches; ++m) {
      spans.push_back(setup.place.split.of(samples, m, role.stage().value, role.replica));
    }
    return assemble_batch(train, common.sampler, worker, p, spans, memory, job.data_threads);
  };
  for (std::size_t c = 0; plays && c < built.chunks.size(); ++c) {
    const SampleSpan usual =
        setup.place.split.of(setup.place.minibatch, 0, role.stages[c].value, role.replica);
    built.chunks[c]->prepare(usual.count());
  }
  if (company.warm->has(service.transport().rank()) && needed && plays) {
    reserve_batches(memory_of_batches, assemble(common.rules.start_minibatch()));
  }
  std::unique_ptr<Prefetcher> prefetcher;
  if (needed && plays) {
    prefetcher = std::make_unique<Prefetcher>(assemble, common.rules.start_minibatch(),
                                              common.rules.end[at(worker)], job.timeout_seconds);
  }

  setup.evaluates = common.evaluations.place();
  setup.evaluations = common.evaluations.events(role.virtual_worker);
  setup.waves = has_waves(job.plan);
  setup.ema = job.optimizer.ema;
  if (!setup.waves) setup.average = std::move(built.start.average);
  setup.split_backward = traits(system.schedule).backward == BackwardForm::split;
  for (const StageId id : role.stages) {
    setup.recompute.push_back(recomputes(vw.stages[at(id.value)], system.weights));
  }
  setup.paces = paces_of(job, role);
  const bool emulated = job.emulates() && job.cluster->kind_of(role.device).emulate;
  setup.run_ahead = emulated || built.device->host_memory() ? 1 : job.run_ahead;
  if (setup.run_ahead > 1) service.set_alertness(Alertness::close);
  setup.clip_globally = job.optimizer.clipping.at(ClipScope::global);
  setup.flushed = traits(system.schedule).has_flush;
  if (ties_stages(common.model, vw)) {
    setup.tied_ahead = tied_ahead(most_minibatches_held(job.plan, vw));
  }
  setup.messages_ahead = messages_ahead(job.plan, vw, role.stages.front());
  setup.scaled =
      std::any_of(setting.devices.begin(), setting.devices.end(),
                  [](const RankDevice& device) { return device.precision == Precision::fp16; });
  setup.loss_scale = common.loss_scale_of_stage(role.virtual_worker, role.stages.back())
                         .value_or(LossScale::State());
  setup.samples.batch = [&](Minibatch p) { return prefetcher ? prefetcher->take(p) : assemble(p); };
  setup.samples.batch_ahead = [&](Minibatch p) -> std::optional<Batch> {
    return prefetcher ? prefetcher->try_take(p) : assemble(p);
  };
  setup.samples.loss_samples = [&](Minibatch p) {
    return loss_samples(common, worker, p, setup.policy.by_wave);
  };
  const Sampler dealt = deal_test_set(job);
  for (std::int64_t b = 0; b < dealt.count(worker); ++b) setup.test.numbers.push_back(b);
  setup.test.samples = [&](std::int64_t b) -> std::int64_t {
    return dealt.samples(worker, b).count;
  };
  setup.test.batch = [&](std::int64_t b) {
    const SampleRange range = dealt.samples(worker, b);
    const SampleSpan own = setup.place.split.whole(range.count, role.stage().value, role.replica);
    return assemble_test_batch(test, range.first + own.first, own.count(), b, test_weight, memory,
                               job.data_threads);
  };
  setup.test.modelled = [&](int chunk, std::int64_t samples) {
    const StagePace& pace = setup.paces[at(chunk)];
    if (pace.forward <= 0) return 0.0;
    return pace.forward * static_cast<double>(samples) / static_cast<double>(pace.samples);
  };
  std::optional<SimulatedRank> simulated;
  if (setting.timeline) simulated.emplace(*setting.timeline, common.rules, role);
  setup.wave_done = [&service, &simulated](WaveReport report) {
    if (simulated) simulated->put_into(report);
    service.send(kReporter, WaveDone{report});
  };
  setup.evaluated = [&service](const EvaluationReport& report) {
    service.send(kReporter, LabelEvaluated{report});
  };
  if (company.trace != nullptr) {
    setup.record = [&, trace = company.trace](ActionRecord record) {
      if (simulated) simulated->put_into(record);
      keep_training(setting.log, [&] {
        trace->record({.start_ns = record.start_ns,
                       .end_ns = record.end_ns,
                       .kind = static_cast<char>(record.kind),
                       .minibatch = record.minibatch,
                       .micro_batch = record.micro,
                       .chunk = record.chunk,
                       .version = record.label,
                       .bytes = record.bytes,
                       .samples = common.sampler.samples(worker, record.minibatch).count});
        if (record.kind == ActionKind::push || record.kind == ActionKind::evaluate) trace->flush();
      });
    };
  }
  if (company.reporter != nullptr) {
    setup.started = [&company](Minibatch p) { company.reporter->started(p); };
  }

  const Rank self = service.transport().rank();
  const StepSizes sizes = step_sizes(common, role, setup.place, dealt);
  auto executor =
      std::make_unique<Worker>(setup, common.rules, built.chunks, *weights, optimizer,
                               built.start.statistics, *synchronizer, *transport, service);
  if (company.warm->has(self)) {
    service.begin("loading its kernels and trying a step", Doing::long_phase);
    executor->warm_up(sizes);
    transport->reserve(staged_lanes(common, setting, self));
    company.warm->wait_for_all();
  }
  paths->open(common, setting);
  transport->use(paths->paths());
  RankReport report = executor->run();
  executor.reset();
  if (simulated) simulated->put_into(report);
  service.send(kReporter, RankDone{report});
  service.wait_for_others(
      [&] { return transport->idle(); },
      [] { return std::string("the last messages to be sent from device memory"); });
  paths->close();
}

}  // namespace hetpipe
