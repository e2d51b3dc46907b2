// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/checkpoint_role.h"

#include "base/time.h"
#include "runtime/training/messages.h"

namespace hetpipe {

CheckpointRole::CheckpointRole(const TrainValues& values, RankService& service, Log& log,
                               TraceWriter* trace)
    : values_(values), service_(service), log_(log), trace_(trace) {
  const TrainJob& job = values.job;
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
                                  .exact = exact ? std::optional(*exact) : std::nullopt,
                                  .loss_scale = values.loss_scale_of_stage(vw, stage)};
              },
          .complete = [this](CheckpointParts parts) { write(std::move(parts)); },
          .empty_shards = values.map.empty_shards()},
      values.rules, service);
  writer_ = std::make_unique<CheckpointWriter>(
      CheckpointWriter::Options{.folder = job.checkpoint_folder,
                                .keep = job.keep_checkpoints,
                                .retry_seconds = job.timeout_seconds / 2});
}

// The rules may change (a stop) while the writer's thread works: it has its own.
void CheckpointRole::write(CheckpointParts parts) {
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

void CheckpointRole::report(const CheckpointWriter::Result& result) {
  ++reported_;
  switch (result.fate) {
    case CheckpointWriter::Fate::written:
      service_.send(Rank{0}, CheckpointWritten{.label = result.label, .path = result.text});
      break;
    case CheckpointWriter::Fate::failed:
      service_.send(Rank{0}, CheckpointFailed{
                                 .label = result.label, .code = result.code, .why = result.text});
      break;
    case CheckpointWriter::Fate::left_out:
      service_.send(Rank{0}, CheckpointLeftOut{.label = result.label});
      break;
  }
  if (trace_ == nullptr || result.fate != CheckpointWriter::Fate::written) return;
  keep_training(log_, [&] {
    trace_->record({.start_ns = result.start_ns,
                    .end_ns = result.end_ns,
                    .kind = static_cast<char>(ActionKind::checkpoint),
                    .minibatch = result.label * values_.rules.length(),
                    .version = result.label});
    trace_->flush();
  });
}

void CheckpointRole::poll() {
  collector_->poll();
  for (const CheckpointWriter::Result& result : writer_->take_results()) report(result);
  // The run's end waits for its last checkpoint, which may take long: somebody is at it.
  if (reported_ < given_) service_.give_life_sign();
}

bool CheckpointRole::finished() const { return collector_->finished() && reported_ == given_; }

std::string CheckpointRole::waiting_for() const {
  return collector_->finished() ? "the last checkpoint to be on disk" : collector_->waiting_for();
}

}  // namespace hetpipe
