// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partitioner/schedule/wave_rules.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/stage_state.h"
#include "runtime/pipeline/synchronizer.h"
#include "runtime/sync/label_step.h"
#include "runtime/sync/messages.h"

// How a checkpoint is collected. Its parts are on many ranks: weights and running
// statistics on the shards, optimizer slots and the pipelines' state on the stages. Without
// servers all of it is on the stages, the same at every virtual worker: the first one's send
// it. Each sends its part of a label when it gets there, while the others continue; the first
// server rank, or the first stage's, collects them.
namespace hetpipe {

// Values of one label on a shard, flat in the shard's layer order.
struct ShardSnapshot {
  Label label = 0;
  std::vector<float> weights;
  std::vector<float> statistics;
  std::vector<float> average{};  // of the weights, where one is kept
  LabelStep::State state{};      // of the servers' own steps, where they make some
  bool operator==(const ShardSnapshot&) const = default;
};

// What one shard adds to a checkpoint.
struct ShardState {
  ShardSnapshot snapshot;
  std::vector<ShardSnapshot> earlier;  // that gates to come may still grant; for a continuation
};
// The same where they lie.
struct ShardValues {
  Label label = 0;
  std::span<const float> weights;
  std::span<const float> statistics;
  std::span<const float> average{};
  std::span<const std::vector<float>> state{};
};
std::vector<std::byte> to_bytes(const ShardValues& snapshot,
                                const std::vector<ShardValues>& earlier);
ShardState shard_state_from(std::span<const std::byte> bytes);

// All of it, at one label.
struct CheckpointParts {
  Label label = 0;
  std::vector<std::vector<StageState>> workers;  // [virtual worker][stage]; of those that send
  std::vector<ShardState> shards;                // none: the stages have the weights
};
std::size_t bytes_of(const CheckpointParts& parts);

// When parts are due, the same on every rank.
struct CheckpointRule {
  // The first label beyond another at which one is due; the last of the run is anyway.
  std::function<std::optional<Label>(Label)> next{};
  bool enabled = true;
  bool exact = false;  // with what a bit-identical continuation needs

  bool due(const WaveRules& rules, Label label) const;
  // A stage sends its part at every label that is due and, for those behind it, at its own end.
  Saves of_stage(const WaveRules& rules, VirtualWorkerId vw, Label label) const;
};
// Whether runs under these rules can be continued bit for bit: labels follow from the waves alone.
bool can_be_exact(const WaveRules& rules);

// Sends parts to the collector; the bytes stay until they have left.
class CheckpointSender {
 public:
  CheckpointSender(Rank collector, int part, RankService& service);
  void send(Label label, std::vector<std::byte> bytes);
  void release_sent();
  bool idle() const { return sending_.empty(); }

 private:
  struct Sending {
    std::vector<std::byte> bytes;
    Operation operation;
  };
  Rank collector_;
  int part_;
  RankService& service_;
  std::deque<Sending> sending_;
};

// Numbers of the parts: stages in the plan's order, then shards.
class PartNumbers {
 public:
  PartNumbers(std::vector<int> stages, int shards);  // per virtual worker
  int of_stage(VirtualWorkerId vw, StageId stage) const;
  int of_shard(ShardId shard) const { return first_shard_ + shard.value; }
  int count() const { return first_shard_ + shards_; }
  int shards() const { return shards_; }
  const std::vector<int>& stages() const { return stages_; }
  // Virtual workers that send parts: all where servers have the weights, else the first.
  int workers() const { return shards_ > 0 ? static_cast<int>(stages_.size()) : 1; }

 private:
  std::vector<int> stages_;
  int shards_;
  int first_shard_ = 0;
};

// Every rank answers the collector's question whether it is still there.
void confirm_checkpoints(RankService& service);

// On the coordinator (Roles::coordinator()): hands over each label's parts once all are there. Acts
// in poll().
//
// A message from a rank that dies while it is read can end in anything (a single-copy transfer
// through shared memory does, and is reported as done). So parts that are there prove little; but a
// rank that answers later was alive when all that it had sent before was read. Parts are looked at
// once every rank has answered.
class CheckpointCollector {
 public:
  struct Setup {
    PartNumbers numbers;
    CheckpointRule rule;
    // Of a stage that plays no wave in this run.
    std::function<StageState(VirtualWorkerId, StageId)> unplayed;
    std::function<void(CheckpointParts)> complete;
    std::vector<bool> empty_shards{};  // by shard: it has no parameters, so it sends no part
  };
  CheckpointCollector(Setup setup, const WaveRules& rules, RankService& service);

  void poll();
  // The run's last label has been handed over.
  bool finished() const;
  std::string waiting_for() const;

 private:
  struct Coming {
    CheckpointPart announced;
    std::vector<std::byte> bytes;
    Operation operation;
  };
  std::optional<Label> next_due() const;
  void ask_all(Label label);
  bool is_empty(int shard) const;
  bool is_complete(Label label) const;
  const std::vector<std::byte>* stage_bytes(VirtualWorkerId vw, StageId stage, Label label) const;
  void hand_over(Label label);

  Setup setup_;
  const WaveRules& rules_;
  RankService& service_;
  std::deque<Coming> coming_;
  std::vector<std::map<Label, std::vector<std::byte>>> parts_;  // by part number
  Label handed_over_;
  Label asked_;      // newest label that all were asked about
  int answers_ = 0;  // to that
};

}  // namespace hetpipe
