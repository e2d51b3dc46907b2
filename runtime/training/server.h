// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/sync/parameter_server.h"
#include "runtime/sync/stop_coordinator.h"
#include "runtime/training/checkpoint_role.h"
#include "runtime/training/roles.h"

namespace hetpipe {

// What a rank does for others: its shard, if it is a parameter server, and at the coordinator
// the checkpoints and, without servers, the agreement on a stop. Acts in poll(). Made before any
// rank works.
class ServerRole {
 public:
  // `trace` may be null.
  ServerRole(const TrainValues& values, std::optional<ShardId> shard, const Roles& roles,
             RankService& service, SharedBlocks& blocks, Log& log, TraceWriter* trace);

  void poll();
  bool finished() const;
  std::string waiting_for() const;
  StopCoordinator* stop() { return stop_.get(); }  // of a run without servers, at its coordinator

 private:
  std::unique_ptr<ParameterServer> shard_;
  std::unique_ptr<CheckpointRole> checkpoints_;
  std::unique_ptr<StopCoordinator> stop_;
};

}  // namespace hetpipe
