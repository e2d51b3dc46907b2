// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "launch/train/roles.h"
#include "launch/train/values.h"
#include "runtime/store/checkpoint_writer.h"
#include "runtime/store/trace.h"
#include "runtime/sync/parameter_server.h"

namespace hetpipe {

// A rank's part as a parameter server: its shard, and on the first server rank the checkpoints,
// from their parts to the disk. Acts in poll().
class ServerRole {
 public:
  // `trace` may be null.
  ServerRole(const TrainValues& values, ShardId shard, const Roles& roles, RankService& service,
             Log& log, TraceWriter* trace);

  void poll();
  bool finished() const;
  std::string waiting_for() const;

 private:
  void write(CheckpointParts parts);
  void tell(const CheckpointWriter::Result& result);

  const TrainValues& values_;
  RankService& service_;
  Log& log_;
  TraceWriter* trace_;
  std::unique_ptr<ParameterServer> shard_;
  std::unique_ptr<CheckpointCollector> collector_;  // first server rank
  std::unique_ptr<CheckpointWriter> writer_;        // likewise, where checkpoints are written
  std::size_t told_ = 0;                            // of those given to the writer
  std::size_t given_ = 0;
};

}  // namespace hetpipe
