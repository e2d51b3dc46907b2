// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "partitioner/schedule/wave_rules.h"
#include "runtime/pipeline/synchronizer.h"
#include "runtime/sync/checkpoint_parts.h"
#include "runtime/sync/group_sums.h"
#include "runtime/sync/stop_coordinator.h"

namespace hetpipe {

// The place of a rank in a run without servers.
struct GroupMember {
  struct Stage {
    StageId id;
    std::int64_t parameters = 0;  // floats in the rank's flat arrays
    std::int64_t statistics = 0;
  };
  VirtualWorkerId virtual_worker;
  int replica = 0;
  std::vector<Stage> stages;  // one; of an interleaved schedule all chunks
};

// Runs without parameter servers (sync = all-reduce): every update sums gradients over all virtual
// workers and replicas. Weights and optimizer slots are the same at all of them, so the first
// replicas of the first virtual worker save them; running statistics differ and are averaged.
class GroupSynchronizer final : public Synchronizer {
 public:
  struct Setup {
    GroupMember member;
    RankSums sums;               // scope everybody
    CheckpointRule checkpoints;  // not exact
    PartNumbers parts;
    Rank coordinator;
    StopCoordinator* stop = nullptr;  // at the coordinator
  };
  GroupSynchronizer(Setup setup, const WaveRules& rules, DeviceTransport& transport,
                    RankService& service);

  void before_forward(Minibatch p) override;
  void reduce(Minibatch p, Buffer& gradient) override { sums_.reduce(p, gradient); }
  double finish_reduce(Minibatch) override { return sums_.finish_reduce(); }
  SumTraffic sum_traffic() const override { return sums_.traffic(); }
  void average_statistics(std::vector<float>& values) override { sums_.average(values); }
  Saves saves(Label label) const override;
  // The state of all stages of this rank, one after another; continues stage by stage. If only its
  // statistics are wanted nothing is sent.
  void save(const StageState& state) override;
  void finish() override;

  // There are no waves to push, and no snapshots.
  void push(Wave, std::shared_ptr<const Buffer>, const std::vector<float>&) override;
  Label pass_gate(Wave) override;
  void prefetch(Wave, Label) override;
  StageSnapshot pull(Wave, Label, WithStatistics, WeightsFor) override;

 private:
  bool speaks() const;

  Setup setup_;
  const WaveRules& rules_;
  RankService& service_;
  GroupSums sums_;
  std::vector<CheckpointSender> parts_;  // by stage, where this rank saves
};

}  // namespace hetpipe
