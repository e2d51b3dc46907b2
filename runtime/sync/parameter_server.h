// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/pipeline/rank_service.h"
#include "runtime/sync/checkpoint_parts.h"
#include "runtime/sync/gate_stop.h"
#include "runtime/sync/label_step.h"
#include "runtime/sync/label_sum.h"
#include "runtime/sync/messages.h"
#include "runtime/sync/push_arrivals.h"
#include "runtime/sync/push_order.h"
#include "runtime/sync/shard_map.h"
#include "runtime/sync/shared_blocks.h"
#include "runtime/sync/wave_clock.h"

namespace hetpipe {

struct ServerSetup {
  ShardId shard;
  std::vector<Rank> server_ranks;                            // by shard
  std::vector<std::vector<std::vector<Rank>>> worker_ranks;  // [virtual worker][stage][replica]
  std::vector<std::vector<int>> stage_end;                   // [virtual worker][stage]
  std::vector<float> update_factor;      // per virtual worker: its weight in the sum
  std::vector<ShardSnapshot> snapshots;  // to start from: earlier ones of a continuation, the first
  std::vector<std::vector<float>> running;  // statistics there, per virtual worker
  CheckpointRule checkpoints;
  int part = 0;               // number of this shard's part of a checkpoint
  double ema = 0;             // decay of the moving average of the weights; 0: none is kept
  double notice_seconds = 0;  // from a request to stop until the run is ended; 0: unknown
  ElementType pushed = ElementType::fp32;  // of a push's numbers
  std::shared_ptr<LabelStep> step{};       // what labels are, instead of the sum
};

// One shard of the parameter server. It holds no optimizer: a push is the sum of a wave's applied
// weight changes, and
//   snapshot(L+1) = snapshot(L) + sum over virtual workers, in their order, of their wave L
// is formed once all of them (that have such a wave) have pushed it, so every label has one value,
// however the pushes interleave. With an average of the weights it forms as well
//   average(L+1) = decay average(L) + (1 - decay) snapshot(L+1)
// in float, the factors rounded once. With a step of its own (LabelStep) the label is what that
// makes of the sum, with its state beside it. The first shard also keeps the WaveClock. Lives in a
// rank by itself or beside a worker: it acts in poll().
//
// By arrival (WaveRules::by_arrival) a label is formed of the one before and a single push, so what
// a virtual worker pushes is kept no longer than any other. Of a label of a checkpoint that one has
// passed and others have not, a snapshot without what lies beyond is continued beside the newest.
class ParameterServer {
 public:
  ParameterServer(ServerSetup setup, const WaveRules& rules, const ShardMap& map,
                  RankService& service, SharedBlocks& blocks);

  void poll();
  // Every worker has finished, and everything sent has left.
  bool finished() const;
  // What is missing, for the message of a wait that failed.
  std::string waiting_for() const;
  std::int64_t snapshots_held() const { return static_cast<std::int64_t>(snapshots_.size()); }

 private:
  struct Snapshot {
    Label label = 0;
    std::shared_ptr<float> weights;
    std::vector<float> statistics;
    std::vector<float> average;
    LabelStep::State state;
  };
  struct Peer {  // one stage of one virtual worker
    VirtualWorkerId vw;
    StageId stage;
    std::vector<Rank> ranks;  // of its replicas: the first one pushes, all pull
    FlatRange parameters;     // on this shard
    FlatRange statistics;
    std::unique_ptr<PushArrivals> pushes;
    // By replica, of its latest pull: it will not ask for labels below gate - D again.
    std::vector<Wave> gates;
    std::vector<bool> finished;  // by replica
    bool all_finished() const;
  };
  struct Waiting {
    const Peer* peer = nullptr;
    Rank rank;  // the replica that asks
    Label label = 0;
    ShardMap::What what = ShardMap::What::parameters;
    bool average = false;
  };
  struct Sending {
    Operation operation;
    std::shared_ptr<const Snapshot> snapshot;  // kept while it is read
  };

  bool take_piece(Peer& peer);
  void end_push(Peer& peer, Wave wave);
  void take_pushes();
  void note_arrival(ShardId shard, VirtualWorkerId vw, Wave wave);
  std::optional<Wave> wave_of(const Peer& peer) const;
  LabelSum::By who_adds() const;
  std::vector<LabelSum::Contributor> contributors() const;
  void start_sum();
  bool hear_pushes(LabelSum& sum);
  bool form_label();
  void end_label(const Snapshot& before);
  std::shared_ptr<Snapshot> following(const Snapshot& before, std::shared_ptr<float> weights,
                                      const std::vector<std::vector<float>>& running);
  void note_statistics(std::vector<std::vector<float>>& running) const;
  void add_to_passed_labels(const Snapshot& before);
  void keep_order();
  void tell_order(const GatePassed& gate);
  LabelStep::State make_step(const Snapshot& before, float* next);
  std::span<const float> sum_begins_at(const Snapshot& before) const;
  std::vector<float> average_of(const Snapshot& before, const Snapshot& next);
  bool serve(const Waiting& waiting);
  void show(const Waiting& waiting, const std::shared_ptr<const Snapshot>& snapshot);
  std::span<const float> weights_of(const Snapshot& snapshot) const;
  void open_gates();
  void forget_labels();
  void save_passed(Label label);
  void save_state(Label label, const Snapshot& snapshot);
  Peer& peer_of(VirtualWorkerId vw, StageId stage);
  static std::size_t replica_of(const Peer& peer, Rank rank);
  int stages_here(VirtualWorkerId vw) const;

  ServerSetup setup_;
  const WaveRules& rules_;
  const ShardMap& map_;
  RankService& service_;
  SharedBlocks& blocks_;
  std::int64_t count_;              // parameters
  std::optional<WaveClock> clock_;  // first shard
  std::optional<GateStop> stop_;    // first shard
  std::optional<PushOrder> order_;  // by arrival
  CheckpointSender parts_;
  bool empty_;  // no parameters: it forms no labels and sends nothing
  std::vector<Peer> peers_;
  std::map<std::pair<Wave, int>, int> stages_arrived_;  // of (wave, virtual worker)
  std::vector<std::vector<float>> running_;  // [virtual worker]: statistics at the newest label
  std::deque<std::shared_ptr<Snapshot>> snapshots_;  // by label, the last is the newest
  std::shared_ptr<float> next_;                      // weights of the label in the making
  std::vector<float> zeros_;                         // where a step takes the changes alone
  std::deque<Waiting> waiting_pulls_;
  std::deque<std::pair<VirtualWorkerId, Wave>> waiting_gates_;
  std::deque<Sending> sending_;
  // Snapshots that ranks in reach are copying.
  std::multimap<std::pair<Rank, Label>, std::shared_ptr<const Snapshot>> shown_;
  std::optional<LabelSum> sum_;  // of next_; ends before what it reads
  // By arrival: of labels of checkpoints, which some virtual workers have passed.
  struct Passed {
    std::shared_ptr<Snapshot> snapshot;
    std::vector<std::vector<float>> running;
  };
  std::map<Label, Passed> passed_labels_;
};

}  // namespace hetpipe
