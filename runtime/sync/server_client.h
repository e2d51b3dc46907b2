// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "partitioner/schedule/wave_rules.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/pipeline/stage.h"
#include "runtime/pipeline/synchronizer.h"
#include "runtime/sync/checkpoint_parts.h"
#include "runtime/sync/forward_hold.h"
#include "runtime/sync/gate_labels.h"
#include "runtime/sync/group_sums.h"
#include "runtime/sync/shard_map.h"
#include "runtime/sync/shared_blocks.h"

namespace hetpipe {

// A replica of a replicated stage, and its exchange with the others of that stage.
struct StageReplica {
  int number = 0;
  std::vector<Rank> ranks;  // of all replicas of the stage
  RankSums sums;            // scope virtual_worker
  // At gates: the first stage asks, and to the others the label comes with the first activation of
  // the wave. A stage that receives none (what it reads is of the samples alone) is told by the
  // rank that asks.
  std::optional<Rank> asker{};  // of such a stage; else absent
  std::vector<Rank> told{};     // of that rank: all of such stages
};

// A stage's end of the parameter server. Of its replicas the first one pushes, saves and asks at
// gates, whose labels it tells the others; each pulls for itself.
class ServerClient final : public Synchronizer {
 public:
  ServerClient(VirtualWorkerId vw, Stage& stage, const WaveRules& rules, const ShardMap& map,
               std::vector<Rank> server_ranks, CheckpointRule checkpoints, CheckpointSender& parts,
               DeviceTransport& transport, RankService& service, GateLabels& gates,
               SharedBlocks& blocks, StageReplica replica = {},
               ForwardHold* hold = nullptr,  // null: no stop inside of a wave
               ElementType pushed = ElementType::fp32);

  // Gates see to a stop at the end of a wave; a first stage waits here for one inside of it.
  void before_forward(Minibatch p) override {
    if (hold_ != nullptr) hold_->before_forward(p);
  }
  void reduce(Minibatch p, Buffer& gradient) override { sums_.reduce(p, gradient); }
  double finish_reduce(Minibatch) override { return sums_.finish_reduce(); }
  SumTraffic sum_traffic() const override { return sums_.traffic(); }
  void average_statistics(std::vector<float>& values) override { sums_.average(values); }

  void push(Wave wave, std::shared_ptr<const Buffer> sum,
            const std::vector<float>& statistics) override;
  Saves saves(Label label) const override {
    return replica_.number > 0 ? Saves::nothing : checkpoints_.of_stage(rules_, vw_, label);
  }
  void save(const StageState& state) override { parts_.send(state.label, to_bytes(state)); }
  Label pass_gate(Wave wave) override;
  void prefetch(Wave gate, Label label) override;
  StageSnapshot pull(Wave gate, Label label, WithStatistics statistics, WeightsFor what) override;
  void finish() override;
  bool all_pushed();  // nothing that was pushed is on its way, or read where it lies

 private:
  struct AskedShard {  // of a pull under way
    ShardId shard;
    Operation operation;      // of what is received;
    std::vector<float> part;  // where it cannot be received in place
    bool shown = false;       // or it is copied from where it lies
  };
  struct Asked {
    Label label = 0;
    bool average = false;
    Buffer weights;
    std::vector<AskedShard> shards;
  };
  struct Sending {
    Operation operation;
    std::shared_ptr<const Buffer> sum;  // whichever of the three was sent
    std::vector<float> payload;
    std::shared_ptr<float> copy;
  };
  struct Added : Operation::State {};  // by a server in reach
  Asked ask(Wave gate, Label label, ShardMap::What what, bool average = false);
  Buffer collect(Asked asked, ShardMap::What what);
  // Of the shard's part, one after another as they lie there, the places in the stage.
  std::vector<FlatRange> ranges_on(ShardId shard, ShardMap::What what) const;
  void push_in_place(Wave wave, ShardId shard, std::shared_ptr<const Buffer> sum,
                     std::vector<float> statistics);
  void drop_sent();

  VirtualWorkerId vw_;
  Stage& stage_;
  const WaveRules& rules_;
  const ShardMap& map_;
  std::vector<Rank> server_ranks_;
  CheckpointRule checkpoints_;
  CheckpointSender& parts_;
  DeviceTransport& transport_;
  RankService& service_;
  GateLabels& gates_;
  SharedBlocks& blocks_;
  StageReplica replica_;
  GroupSums sums_;
  ForwardHold* hold_;
  ElementType pushed_;  // of the numbers that push() is given
  std::optional<Asked> prefetched_;
  std::deque<Sending> sending_;
  std::map<std::pair<Wave, ShardId>, std::shared_ptr<Added>> to_be_added_;
  std::map<std::pair<Label, ShardId>, PullShown> shown_;
  struct Uploading {  // parts of pulls that the device may still read
    std::unique_ptr<Event> read;
    std::vector<float> part;
  };
  std::deque<Uploading> uploading_;
};

}  // namespace hetpipe
