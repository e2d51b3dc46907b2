// SPDX-License-Identifier: Apache-2.0
#include "launch/train/run.h"

#include <algorithm>
#include <memory>

#include "base/text.h"
#include "base/time.h"
#include "kernels/devices.h"
#include "launch/train/clock.h"
#include "launch/train/server.h"
#include "launch/train/stop.h"
#include "launch/train/trace.h"
#include "launch/train/values.h"
#include "runtime/data/prefetch.h"
#include "runtime/pipeline/worker.h"
#include "runtime/sync/server_client.h"

namespace hetpipe {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

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
    if (!test.has_labels()) continue;
    const std::span<const std::int32_t> labels = test.labels_of(first + i);
    batch.labels.insert(batch.labels.end(), labels.begin(), labels.end());
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

void run_worker(const TrainValues& common, const Role::Worker& role, const RankSetting& setting,
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
  FlatState start = common.start_of_stage(role.virtual_worker, role.stage);
  const bool plays = common.rules.end[at(worker)] > common.rules.start_minibatch();
  const ExactWeights* exact = common.exact_of_stage(role.virtual_worker, role.stage);
  const std::unique_ptr<LocalWeights> weights =
      exact != nullptr && plays
          ? std::make_unique<LocalWeights>(*device, *stream, common.rules, *exact)
          : std::make_unique<LocalWeights>(*device, *stream, common.rules, start.parameters);
  Optimizer optimizer(job.optimizer, *device, *stream, stage.parameters().count());
  if (common.checkpoint) {
    for (std::size_t slot = 0; slot < start.slots.size(); ++slot) {
      optimizer.load_slot(slot, start.slots[slot]);
    }
  }
  CheckpointSender parts(setting.roles.server.front(),
                         common.parts.of_stage(role.virtual_worker, role.stage), service);
  ServerClient client(role.virtual_worker, stage, common.rules, common.map, setting.roles.server,
                      common.checkpoints, parts, service);

  const std::optional<Parts> needed = parts_for(stage);
  const Dataset train = needed ? setting.open_data(Split::train, *needed) : Dataset{};
  const Dataset test =
      needed && job.test_size > 0 ? setting.open_data(Split::test, *needed) : Dataset{};
  std::unique_ptr<Prefetcher> prefetcher;
  if (needed && plays) {
    prefetcher = std::make_unique<Prefetcher>(
        [&](Minibatch p) { return assemble_batch(train, common.sampler, worker, p); },
        common.rules.start_minibatch(), common.sampler.count(worker), job.timeout_seconds);
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

  Worker(std::move(setup), common.rules, stage, *weights, optimizer, std::move(start.statistics),
         client, service)
      .run();
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

RunEnd run_rank(const TrainJob& job, const RankSetting& setting) {
  TrainValues values(job);
  const Rank rank = setting.transport.rank();
  const Role& role = setting.roles.of_rank[at(rank.value)];
  RankService service(setting.transport, job.timeout_seconds, setting.watchers);
  const std::unique_ptr<TraceWriter> trace = open_trace(job, role, setting);

  std::optional<ExitCode> over;
  service.on(MessageKind::run_over, [&over](const ControlMessage& message) {
    over = static_cast<ExitCode>(message.header.part);
  });
  ClockComparison clocks(service);
  const auto note_clock = [&] {
    const ClockEstimate estimate = clocks.compare();
    if (trace) keep_training(setting.log, [&] { trace->set_clock(estimate); });
  };
  std::unique_ptr<Reporter> reporter;
  if (rank == Rank{0}) {
    reporter = std::make_unique<Reporter>(job, values.rules, values.sampler, service, setting.log,
                                          trace.get());
  }
  std::unique_ptr<ServerRole> server;
  if (role.shard) {
    server = std::make_unique<ServerRole>(values, *role.shard, setting.roles, service, setting.log,
                                          trace.get());
    service.also_poll([&server] { server->poll(); });
  }
  const StopListener stop(service, setting.roles.server.front(), setting.stop_wanted,
                          [&](Label label, const StopWanted& by) {
                            values.rules.stop_at(label);
                            if (reporter) reporter->stopping(label, by);
                          });
  confirm_checkpoints(service);
  note_clock();  // after all that a faster rank may send messages to
  if (role.worker) {
    run_worker(values, *role.worker, setting, service, trace.get(), reporter.get());
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
    const ExitCode failed = reporter->outcome().code;
    const ExitCode code = failed != ExitCode::done ? failed
                          : values.rules.stopped   ? ExitCode::stopped
                                                   : ExitCode::done;
    service.tell_all({.kind = static_cast<std::int32_t>(MessageKind::run_over),
                      .part = static_cast<std::int32_t>(code)});
  }
  service.wait_for_others([&] { return over.has_value(); },
                          [] { return std::string("rank 0 to close the run"); });
  service.wait([&] { return setting.transport.idle(); },
               [] { return std::string("the last messages to leave"); });
  if (trace) keep_training(setting.log, [&] { trace->flush(); });
  return {.code = *over, .outcome = reporter ? reporter->outcome() : Reporter::Outcome{}};
}

}  // namespace hetpipe
