// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "base/log.h"
#include "runtime/store/checkpoint_writer.h"
#include "runtime/store/trace.h"
#include "runtime/training/values.h"

namespace hetpipe {

// The coordinator's part: checkpoints, from their parts to the disk. Acts in poll().
class CheckpointRole {
 public:
  // `trace` may be null.
  CheckpointRole(const TrainValues& values, RankService& service, Log& log, TraceWriter* trace);

  void poll();
  bool finished() const;
  std::string waiting_for() const;

 private:
  void write(CheckpointParts parts);
  void report(const CheckpointWriter::Result& result);

  const TrainValues& values_;
  RankService& service_;
  Log& log_;
  TraceWriter* trace_;
  std::unique_ptr<CheckpointCollector> collector_;
  std::unique_ptr<CheckpointWriter> writer_;
  std::size_t reported_ = 0;  // of those given to the writer
  std::size_t given_ = 0;
};

}  // namespace hetpipe
