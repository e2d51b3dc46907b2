// SPDX-License-Identifier: Apache-2.0
#include "launch/train/server.h"

#include "base/time.h"
#include "launch/train/trace.h"
#include "runtime/pipeline/protocol.h"

namespace hetpipe {
namespace {

// What a virtual worker's wave weighs in the sum: its samples; all the same: each counts 1 (sum) or
// 1/N (mean).
std::vector<float> update_factors(const Plan& plan) {
  double samples = 0;
  const std::size_t workers = plan.virtual_workers.size();
  for (std::size_t i = 0; i < workers; ++i) {
    samples += plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)});
  }
  const double whole = plan.server->scale == "mean" ? 1 : static_cast<double>(workers);
  std::vector<float> factors;
  for (std::size_t i = 0; i < workers; ++i) {
    const double share = plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)}) / samples;
    factors.push_back(static_cast<float>(whole * share));
  }
  return factors;
}

}  // namespace

ServerRole::ServerRole(const TrainValues& values, ShardId shard, const Roles& roles,
                       RankService& service, Log& log, TraceWriter* trace)
    : values_(values), service_(service), log_(log), trace_(trace) {
  const TrainJob& job = values.job;
  ServerSetup setup;
  setup.shard = shard;
  setup.server_ranks = roles.server;
  setup.worker_ranks = roles.worker;
  for (const PlanVirtualWorker& vw : job.plan.virtual_workers) {
    setup.stage_end.push_back(stage_ends(vw));
  }
  setup.update_factor = update_factors(job.plan);
  setup.snapshots = values.snapshots_of(shard);
  setup.running = values.running_on(shard);
  setup.checkpoints = values.checkpoints;
  setup.part = values.parts.of_shard(shard);
  shard_ = std::make_unique<ParameterServer>(std::move(setup), values.rules, values.map, service);
  if (shard.value != 0 || job.checkpoint_folder.empty()) return;
  collector_ = std::make_unique<CheckpointCollector>(
      CheckpointCollector::Setup{
          .numbers = values.parts,
          .rule = values.checkpoints,
          .unplayed =
              [&values](VirtualWorkerId vw, StageId stage) {
                FlatState start = values.start_of_stage(vw, stage);
                const ExactWeights* exact = values.exact_of_stage(vw, stage);
                return StageState{.label = values.rules.start_wave(),
                                  .slots = std::move(start.slots),
                                  .statistics = std::move(start.statistics),
                                  .exact = exact ? std::optional(*exact) : std::nullopt};
              },
          .complete = [this](CheckpointParts parts) { write(std::move(parts)); }},
      values.rules, service);
  writer_ = std::make_unique<CheckpointWriter>(
      CheckpointWriter::Options{.folder = job.checkpoint_folder,
                                .keep = job.keep_checkpoints,
                                .retry_seconds = job.timeout_seconds / 2});
}

// The rules may change (a stop) while the writer's thread works: it has its own.
void ServerRole::write(CheckpointParts parts) {
  const Label label = parts.label;
  const bool last = label == values_.rules.end_label();
  const std::size_t bytes = bytes_of(parts);
  auto shared = std::make_shared<const CheckpointParts>(std::move(parts));
  ++given_;
  writer_->write(
      label, bytes,
      [&values = values_, rules = values_.rules, shared] {
        return assemble_checkpoint(values.job, values.model, values.map, rules, values.sampler,
                                   *shared);
      },
      last ? CheckpointWriter::Which::last : CheckpointWriter::Which::one_of_many);
}

void ServerRole::tell(const CheckpointWriter::Result& result) {
  ++told_;
  const MessageKind kind =
      result.fate == CheckpointWriter::Fate::written  ? MessageKind::checkpoint_written
      : result.fate == CheckpointWriter::Fate::failed ? MessageKind::checkpoint_failed
                                                      : MessageKind::checkpoint_left_out;
  service_.transport().send_control(Rank{0},
                                    {.kind = static_cast<std::int32_t>(kind),
                                     .part = static_cast<std::int32_t>(result.code),
                                     .label = result.label},
                                    std::as_bytes(std::span(result.text)));
  if (trace_ == nullptr || result.fate != CheckpointWriter::Fate::written) return;
  keep_training(log_, [&] {
    trace_->record({.start_ns = result.start_ns,
                    .end_ns = result.end_ns,
                    .kind = static_cast<char>(ActionKind::checkpoint),
                    .minibatch = result.label * values_.rules.in_flight,
                    .version = result.label});
    trace_->flush();
  });
}

void ServerRole::poll() {
  shard_->poll();
  if (!collector_) return;
  collector_->poll();
  for (const CheckpointWriter::Result& result : writer_->take_results()) tell(result);
  // The run's end waits for its last checkpoint, which may take long: somebody is at it.
  if (told_ < given_) service_.give_life_sign();
}

bool ServerRole::finished() const {
  if (!shard_->finished()) return false;
  return !collector_ || (collector_->finished() && told_ == given_);
}

std::string ServerRole::waiting_for() const {
  if (!shard_->finished()) return shard_->waiting_for();
  return collector_->finished() ? "the last checkpoint to be on the disk"
                                : collector_->waiting_for();
}

}  // namespace hetpipe
