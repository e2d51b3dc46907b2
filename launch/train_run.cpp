// SPDX-License-Identifier: Apache-2.0
#include "launch/train_run.h"

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "base/time.h"
#include "kernels/devices.h"
#include "launch/train_checkpoint.h"
#include "launch/train_clock.h"
#include "partitioner/placement.h"
#include "runtime/data/prefetch.h"
#include "runtime/model/zoo.h"
#include "runtime/pipeline/worker.h"
#include "runtime/sync/parameter_server.h"

namespace hetpipe {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// What every role of a rank shares: values that follow from the job.
struct Common {
  explicit Common(const TrainJob& the_job)
      : job(the_job),
        model(make_model(job.model, job.sample, job.classes)),
        sampler(make_sampler(job)),
        rules(make_wave_rules(job, sampler)),
        map(model, shards_of_layers(), static_cast<int>(job.plan.server->nodes.size())),
        checkpoint_labels(due_labels(job, rules, job.checkpoint_every)),
        evaluations(job.test_size > 0 ? evaluation_labels(job, rules) : std::vector<Label>{}) {
    if (!job.start.checkpoint.empty()) checkpoint = read_checkpoint(job.start.checkpoint);
  }

  std::vector<int> shards_of_layers() const {
    std::vector<std::int64_t> bytes;
    for (int l = 0; l < model.layer_count(); ++l) {
      std::int64_t floats = 0;
      for (const auto& parameter : model.shapes(l, 1).parameters)
        floats += parameter.shape.elements();
      bytes.push_back(floats * static_cast<std::int64_t>(sizeof(float)));
    }
    return shard_of_layers(job.plan, bytes);
  }
  const Checkpoint* from() const { return checkpoint ? &*checkpoint : nullptr; }

  const TrainJob& job;
  Model model;
  Sampler sampler;
  WaveRules rules;
  ShardMap map;
  std::vector<Label> checkpoint_labels;
  std::vector<Label> evaluations;
  std::optional<Checkpoint> checkpoint;
};

std::vector<int> stage_ends(const PlanVirtualWorker& vw) {
  std::vector<int> ends;
  for (const PlanStage& stage : vw.stages) ends.push_back(stage.end_layer);
  return ends;
}

std::vector<int> layers_between(int first, int end) {
  std::vector<int> layers;
  for (int l = first; l < end; ++l) layers.push_back(l);
  return layers;
}

// A trace that cannot be written any more (a full disk) is given up, not the training.
template <class Write>
void keep_training(Log& log, Write write) {
  try {
    write();
  } catch (const SystemError& error) {
    log.warning(std::string(error.what()) + "; the training goes on without this trace");
  }
}

StagePace make_pace(const TrainJob& job, const Role::Worker& role, const PlanStage& stage) {
  StagePace pace;
  if (!job.cluster) return pace;
  const DeviceKind& kind = job.cluster->kind_of(role.device);
  if (!kind.emulate) return pace;
  pace.minibatch = job.plan.minibatch_of(role.virtual_worker);
  const LayerCosts costs = costs_on(*job.profile, kind, pace.minibatch);
  for (int l = stage.first_layer; l < stage.end_layer; ++l) {
    pace.forward += costs.forward[at(l)];
    pace.backward += costs.backward[at(l)];
    if (!costs.update.empty()) pace.update += costs.update[at(l)];
  }
  return pace;
}

std::optional<Parts> parts_for(const Stage& stage) {
  if (stage.reads_samples()) return stage.has_loss() ? Parts::both : Parts::images;
  if (stage.has_loss()) return Parts::labels;
  return std::nullopt;
}

// Samples [first, first + count) of the test set, in its own order.
Batch assemble_test_batch(const Dataset& test, const SampleRange& range, std::int64_t number) {
  Batch batch;
  const std::int64_t first = range.first;
  batch.minibatch = number;
  batch.count = range.count;
  if (test.has_images()) {
    batch.images.resize(static_cast<std::size_t>(batch.count * test.sample_values()));
  }
  for (int i = 0; i < batch.count; ++i) {
    batch.keys.push_back({0, first + i});
    if (test.has_images())
      test.copy_sample(first + i, batch.images.data() + i * test.sample_values());
    if (test.has_labels()) batch.labels.push_back(test.labels[static_cast<std::size_t>(first + i)]);
  }
  return batch;
}

Sampler deal_test_set(const TrainJob& job) {
  std::vector<int> minibatches;
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    minibatches.push_back(job.plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)}));
  }
  return Sampler(job.seed, std::max<std::int64_t>(job.test_size, 1), std::move(minibatches), 0,
                 job.test_size);
}

void run_worker(const Common& common, const Role::Worker& role, const RankSetting& setting,
                RankService& service, TraceWriter* trace, Reporter* reporter) {
  const TrainJob& job = common.job;
  const int worker = role.virtual_worker.value;
  const PlanVirtualWorker& vw = job.plan.virtual_workers[at(worker)];
  const PlanStage& plan_stage = vw.stages[at(role.stage.value)];
  service.begin("building its stage and reading data", Doing::long_phase);

  const std::unique_ptr<Device> device = make_device(job.device, job.threads);
  if (job.cluster && job.cluster->kind_of(role.device).emulate) {
    const DeviceKind& kind = job.cluster->kind_of(role.device);
    device->memory().set_budget(static_cast<std::size_t>(kind.memory * kind.gpus),
                                to_string(role.device) + " (" + kind.name + ", emulated)");
  }
  const std::unique_ptr<Stream> stream = device->make_stream();
  Stage stage(common.model, stage_ends(vw), role.stage, job.seed, *device, *stream);
  FlatState state = starting_state(job, common.model, common.from(),
                                   layers_between(stage.first_layer(), stage.end_layer()));
  LocalWeights weights(*device, *stream, common.rules, state.parameters);
  Optimizer optimizer(job.optimizer, *device, *stream, stage.parameters().count());
  if (common.checkpoint) {
    for (std::size_t slot = 0; slot < state.slots.size(); ++slot) {
      optimizer.load_slot(slot, state.slots[slot]);
    }
  }
  ServerClient client(role.virtual_worker, stage, common.rules, common.map, setting.roles.server,
                      common.checkpoint_labels, service);

  const std::optional<Parts> parts = parts_for(stage);
  const Dataset train = parts ? setting.open_data(Split::train, *parts) : Dataset{};
  const Dataset test =
      parts && job.test_size > 0 ? setting.open_data(Split::test, *parts) : Dataset{};
  std::unique_ptr<Prefetcher> prefetcher;
  if (parts && common.rules.end[at(worker)] > common.rules.first_minibatch()) {
    prefetcher = std::make_unique<Prefetcher>(train, common.sampler, worker, job.timeout_seconds);
  }

  WorkerSetup setup;
  setup.neighbours = {role.virtual_worker, setting.roles.worker[at(worker)],
                      [&](Minibatch p) { return common.sampler.samples(worker, p).count; }};
  setup.reporter = Rank{0};
  setup.actions = stage_actions(common.rules, role.virtual_worker,
                                static_cast<int>(vw.stages.size()), role.stage, common.evaluations);
  setup.pace = make_pace(job, role, plan_stage);
  setup.training_batch = [&](Minibatch p) {
    return prefetcher ? prefetcher->take(p) : assemble_batch(train, common.sampler, worker, p);
  };
  // The test set is dealt out like the training set: every sample once, by minibatches of each
  // one's own size, which is what fits its devices.
  const Sampler dealt = deal_test_set(job);
  for (std::int64_t b = 0; b < dealt.count(worker); ++b) setup.evaluation_batches.push_back(b);
  setup.evaluation_batch = [&](std::int64_t b) {
    return assemble_test_batch(test, dealt.samples(worker, b), b);
  };
  if (trace != nullptr) {
    setup.record = [&](const ActionRecord& record) {
      keep_training(setting.log, [&] {
        trace->record({.start_ns = record.start_ns,
                       .end_ns = record.end_ns,
                       .kind = static_cast<char>(record.kind),
                       .minibatch = record.minibatch,
                       .version = record.label,
                       .bytes = record.bytes,
                       .samples = common.sampler.samples(worker, record.minibatch).count});
        if (record.kind == ActionKind::push) trace->flush();
      });
    };
  }
  if (reporter != nullptr) setup.started = [reporter](Minibatch p) { reporter->started(p); };

  Worker(std::move(setup), common.rules, stage, weights, optimizer, std::move(state.statistics),
         client, service)
      .run();
}

std::unique_ptr<ParameterServer> make_server(const Common& common, ShardId shard,
                                             const RankSetting& setting, RankService& service,
                                             TraceWriter* trace) {
  const TrainJob& job = common.job;
  FlatState state = starting_state(job, common.model, common.from(), common.map.layers(shard));
  ServerSetup setup;
  setup.shard = shard;
  setup.server_ranks = setting.roles.server;
  setup.worker_ranks = setting.roles.worker;
  double samples = 0;
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    setup.stage_end.push_back(stage_ends(job.plan.virtual_workers[i]));
    samples += job.plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)});
  }
  // Weighted by samples; all the same: each counts 1 (sum) or 1/N (mean).
  const double workers = static_cast<double>(job.plan.virtual_workers.size());
  const double whole = job.plan.server->scale == "mean" ? 1 : workers;
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    const double share = job.plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)}) / samples;
    setup.update_factor.push_back(static_cast<float>(whole * share));
  }
  setup.optimizer_slots = static_cast<int>(state.slots.size());
  setup.checkpoint_labels = common.checkpoint_labels;
  setup.weights = std::move(state.parameters);
  setup.statistics = std::move(state.statistics);
  setup.slots = std::move(state.slots);
  if (!job.checkpoint_folder.empty()) {
    setup.checkpoint = [&common, &service, &log = setting.log,
                        trace](const std::vector<ShardState>& shards) {
      const std::int64_t start = now_ns();
      service.begin("writing a checkpoint", Doing::long_phase);
      const Checkpoint checkpoint = assemble_checkpoint(common.job, common.model, common.map,
                                                        common.rules, common.sampler, shards);
      const std::string path =
          common.job.checkpoint_folder + "/" + checkpoint_name(checkpoint.label);
      write_checkpoint(path, checkpoint);
      if (trace != nullptr) {
        keep_training(log, [&] {
          trace->record({.start_ns = start,
                         .end_ns = now_ns(),
                         .kind = static_cast<char>(ActionKind::checkpoint),
                         .minibatch = checkpoint.optimizer_step,
                         .version = checkpoint.label});
          trace->flush();
        });
      }
      service.transport().send_control(
          Rank{0},
          {.kind = static_cast<std::int32_t>(MessageKind::checkpoint_written),
           .label = checkpoint.label},
          std::as_bytes(std::span(path.data(), path.size())));
    };
  }
  return std::make_unique<ParameterServer>(std::move(setup), common.rules, common.map, service);
}

std::unique_ptr<TraceWriter> open_trace(const TrainJob& job, const Role& role,
                                        const RankSetting& setting) {
  if (job.trace_folder.empty()) return nullptr;
  const int rank = setting.transport.rank().value;
  TraceInfo info{.rank = rank, .host = setting.host, .device = role.node};
  if (role.worker) {
    info.device = to_string(role.worker->device);
    info.virtual_worker = role.worker->virtual_worker.value;
    info.stage = role.worker->stage.value;
  }
  return std::make_unique<TraceWriter>(format("%s/rank-%d.h5", job.trace_folder.c_str(), rank),
                                       info);
}

}  // namespace

Reporter::Outcome run_rank(const TrainJob& job, const RankSetting& setting) {
  const Common common(job);
  const Rank rank = setting.transport.rank();
  const Role& role = setting.roles.of_rank[at(rank.value)];
  RankService service(setting.transport, job.timeout_seconds, setting.watchers);
  const std::unique_ptr<TraceWriter> trace = open_trace(job, role, setting);

  bool over = false;
  service.on(MessageKind::run_over, [&over](const ControlMessage&) { over = true; });
  ClockComparison clocks(service);
  const auto note_clock = [&] {
    const ClockEstimate estimate = clocks.compare();
    if (trace) keep_training(setting.log, [&] { trace->set_clock(estimate); });
  };
  std::unique_ptr<Reporter> reporter;
  if (rank == Rank{0}) {
    reporter = std::make_unique<Reporter>(job, common.rules, common.sampler, service, setting.log,
                                          trace.get());
  }
  std::unique_ptr<ParameterServer> server;
  if (role.shard) {
    server = make_server(common, *role.shard, setting, service, trace.get());
    service.also_poll([&server] { server->poll(); });
  }
  note_clock();  // after all that a faster rank may send messages to
  if (role.worker) {
    run_worker(common, *role.worker, setting, service, trace.get(), reporter.get());
  }
  service.begin(role.worker ? "ending" : "serving");
  if (server) {
    service.wait_for_others([&] { return server->finished(); },
                            [&] { return server->waiting_for(); }, "pushes and pulls");
  }
  note_clock();
  if (reporter) {
    service.wait_for_others([&] { return reporter->complete(); },
                            [&] { return reporter->waiting_for(); }, "the last reports");
    for (int r = 0; r < setting.transport.ranks(); ++r) {
      setting.transport.send_control(Rank{r},
                                     {.kind = static_cast<std::int32_t>(MessageKind::run_over)});
    }
  }
  service.wait_for_others([&] { return over; },
                          [] { return std::string("rank 0 to close the run"); });
  service.wait([&] { return setting.transport.idle(); },
               [] { return std::string("the last messages to leave"); });
  if (trace) keep_training(setting.log, [&] { trace->flush(); });
  return reporter ? reporter->outcome() : Reporter::Outcome{};
}

}  // namespace hetpipe
