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
#include "runtime/sync/shard_map.h"

namespace hetpipe {

// What a pull_request asks for; its header holds stage, gate and label.
struct PullRequest {
  std::int32_t virtual_worker = 0;
  std::int32_t weights = 0;     // 1: wanted
  std::int32_t statistics = 0;  // 1: wanted
};

// A stage's end of the parameter server.
class ServerClient final : public Synchronizer {
 public:
  ServerClient(VirtualWorkerId vw, Stage& stage, const WaveRules& rules, const ShardMap& map,
               std::vector<Rank> server_ranks, CheckpointRule checkpoints, CheckpointSender& parts,
               RankService& service);

  void before_forward(Minibatch) override {}
  void reduce(Minibatch, Buffer&) override {}
  double finish_reduce(Minibatch) override { return 0; }
  void average_statistics(std::vector<float>&) override {}
  void push(Wave wave, std::shared_ptr<const Buffer> sum,
            const std::vector<float>& statistics) override;
  Saves saves(Label label) const override { return checkpoints_.of_stage(rules_, vw_, label); }
  void save(const StageState& state) override { parts_.send(state.label, to_bytes(state)); }
  Label pass_gate(Wave wave) override;
  void prefetch(Wave gate, Label label) override;
  StageSnapshot pull(Wave gate, Label label, WithStatistics statistics) override;
  void finish() override;

 private:
  struct Asked {  // a pull under way
    Label label = 0;
    Buffer weights;
    std::vector<std::vector<float>> parts;  // per shard, where it cannot be received in place
    std::vector<Operation> operations;
    std::vector<ShardId> shards;
  };
  struct Sending {
    Operation operation;
    std::shared_ptr<const Buffer> sum;  // whichever of the two was sent
    std::vector<float> payload;
  };
  Asked ask(Wave gate, Label label, ShardMap::What what);
  Buffer collect(Asked asked, ShardMap::What what);
  void request(ShardId shard, Wave gate, Label label, ShardMap::What what);
  void drop_sent();

  VirtualWorkerId vw_;
  Stage& stage_;
  const WaveRules& rules_;
  const ShardMap& map_;
  std::vector<Rank> server_ranks_;
  CheckpointRule checkpoints_;
  CheckpointSender& parts_;
  RankService& service_;
  std::optional<Label> granted_;
  std::optional<Asked> prefetched_;
  std::deque<Sending> sending_;
};

}  // namespace hetpipe
