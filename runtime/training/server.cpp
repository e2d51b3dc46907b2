// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/server.h"

#include <cmath>

#include "kernels/devices.h"
#include "runtime/sync/optimizer_steps.h"
#include "runtime/sync/outer_step.h"
#include "runtime/training/groups.h"

namespace hetpipe {
namespace {

// What a virtual worker's wave weighs in the sum: its samples; all the same: each counts 1 (sum),
// 1/N (mean) or 1/sqrt(N) (root).
std::vector<float> update_factors(const Plan& plan) {
  const auto samples = static_cast<double>(plan.global_batch());
  const std::size_t workers = plan.virtual_workers.size();
  const auto number = static_cast<double>(workers);
  const std::string& scale = plan.server->scale;
  const double whole = scale == "mean" ? 1 : scale == "root" ? std::sqrt(number) : number;
  std::vector<float> factors;
  for (std::size_t i = 0; i < workers; ++i) {
    const double share = plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)}) / samples;
    factors.push_back(static_cast<float>(whole * share));
  }
  return factors;
}

// Of its labels; null: they are sums.
std::shared_ptr<LabelStep> step_of(const TrainValues& values, ShardId shard) {
  const TrainJob& job = values.job;
  if (makes_outer_steps(job.plan)) {
    return std::make_shared<OuterSteps>(
        OuterStep{.rate = static_cast<float>(job.plan.server->outer_rate),
                  .momentum = static_cast<float>(job.plan.server->outer_momentum)});
  }
  if (!optimizer_at_servers(job.plan)) return nullptr;
  OptimizerSteps::Setup setup{.optimizer = job.optimizer,
                              .of_stages = optimizer_of_stages(job),
                              .ahead = steps_ahead(job.plan)};
  setup.optimizer.clipping = {};  // the stages have done it
  for (const int layer : values.map.layers(shard)) {
    setup.parameters.push_back(
        optimized_parameters(ParameterLayout::parameters(values.model, layer, layer + 1),
                             job.optimizer.vectors_decay, job.optimizer.rates));
  }
  // Whatever device the workers have; in tests of the arithmetic the reference.
  return std::make_shared<OptimizerSteps>(
      setup, values.rules,
      make_device(job.device == "reference" ? job.device : "cpu", job.threads));
}

ServerSetup server_setup(const TrainValues& values, ShardId shard, const Roles& roles) {
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
  setup.ema = job.optimizer.ema;
  setup.notice_seconds = job.notice_seconds;
  setup.pushed = push_type(job.plan);
  setup.step = step_of(values, shard);
  return setup;
}

}  // namespace

ServerRole::ServerRole(const TrainValues& values, std::optional<ShardId> shard, const Roles& roles,
                       RankService& service, SharedBlocks& blocks, Log& log, TraceWriter* trace) {
  if (shard) {
    shard_ = std::make_unique<ParameterServer>(server_setup(values, *shard, roles), values.rules,
                                               values.map, service, blocks);
  }
  if (roles.coordinator() != service.transport().rank()) return;
  if (!shard) {
    stop_ = std::make_unique<StopCoordinator>(values.rules, run_ahead(values.job.plan), service);
  }
  if (!values.job.checkpoint_folder.empty()) {
    // In simulated time a checkpoint takes none.
    checkpoints_ =
        std::make_unique<CheckpointRole>(values, service, log, values.job.time ? nullptr : trace);
  }
}

void ServerRole::poll() {
  if (shard_) shard_->poll();
  if (checkpoints_) checkpoints_->poll();
}

bool ServerRole::finished() const {
  return (!shard_ || shard_->finished()) && (!checkpoints_ || checkpoints_->finished());
}

std::string ServerRole::waiting_for() const {
  if (shard_ && !shard_->finished()) return shard_->waiting_for();
  return checkpoints_ ? checkpoints_->waiting_for() : "nothing";
}

}  // namespace hetpipe
