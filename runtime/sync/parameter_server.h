// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/pipeline/rank_service.h"
#include "runtime/sync/server_client.h"
#include "runtime/sync/shard_map.h"
#include "runtime/sync/wave_clock.h"

namespace hetpipe {

// What one shard adds to a checkpoint, flat in the shard's layer order.
struct ShardState {
  Label label = 0;
  std::vector<float> weights;
  std::vector<float> statistics;
  std::vector<std::vector<float>> slots;  // means over virtual workers
};

struct ServerSetup {
  ShardId shard;
  std::vector<Rank> server_ranks;               // by shard
  std::vector<std::vector<Rank>> worker_ranks;  // [virtual worker][stage]
  std::vector<std::vector<int>> stage_end;      // [virtual worker][stage]
  std::vector<float> update_factor;             // per virtual worker: its weight in the sum
  int optimizer_slots = 0;
  std::vector<Label> checkpoint_labels;  // ascending; the last label of the run is due anyway
  std::vector<float> weights;            // initial, the shard's
  std::vector<float> statistics;
  std::vector<std::vector<float>> slots;  // initial, for virtual workers without a single wave
  // First shard only: all shards' states of a label that is due.
  std::function<void(const std::vector<ShardState>&)> checkpoint;
};

// One shard of the parameter server. It holds no optimizer: a push is the sum of a wave's applied
// weight changes, and
//   snapshot(L+1) = snapshot(L) + sum over virtual workers, in their order, of their wave L
// is formed once all of them (that have such a wave) have pushed it, so every label has one value,
// however the pushes interleave. The first shard also keeps the WaveClock. Lives in a rank by
// itself or beside a worker: it acts in poll().
class ParameterServer {
 public:
  ParameterServer(ServerSetup setup, const WaveRules& rules, const ShardMap& map,
                  RankService& service);

  void poll();
  // Every worker has finished, everything sent has left, the last checkpoint has been handed over.
  bool finished() const;
  // What is missing, for the message of a wait that failed.
  std::string waiting_for() const;
  std::int64_t snapshots_held() const { return static_cast<std::int64_t>(snapshots_.size()); }

 private:
  struct Snapshot {
    Label label = 0;
    std::vector<float> weights;
    std::vector<float> statistics;
  };
  struct Peer {  // one stage of one virtual worker
    VirtualWorkerId vw;
    StageId stage;
    Rank rank;
    FlatRange parameters;  // on this shard
    FlatRange statistics;
    Wave next_wave = 0;
    std::vector<float> arriving;
    Operation receive;
    Wave gate = 0;  // of its latest pull: it will not ask for labels below gate - D again
    bool finished = false;
  };
  struct PendingWave {  // of one virtual worker
    int parts = 0;
    std::vector<float> delta;
    std::vector<float> statistics;
    std::vector<std::vector<float>> slots;  // where the wave carries them
  };
  struct Waiting {
    const Peer* peer = nullptr;
    Label label = 0;
    PullRequest request;
  };
  struct Sending {
    Operation operation;
    std::shared_ptr<const Snapshot> snapshot;  // kept while it is read
  };

  void post_push(Peer& peer);
  void take_push(Peer& peer);
  void note_arrival(ShardId shard, VirtualWorkerId vw, Wave wave);
  void note_empty_shard(ShardId shard);
  bool complete(Wave wave) const;
  void form_label();
  bool serve(const Waiting& waiting);
  void open_gates();
  void forget_labels();
  bool checkpoint_due(Label label) const;
  void save_state();
  void post_state(ShardId shard);
  void state_arrived(ShardId shard, ShardState state);
  std::size_t state_floats(ShardId shard) const;
  Peer& peer_of(VirtualWorkerId vw, StageId stage);
  int stages_here(VirtualWorkerId vw) const;

  ServerSetup setup_;
  const WaveRules& rules_;
  const ShardMap& map_;
  RankService& service_;
  std::optional<WaveClock> clock_;  // first shard
  std::vector<Peer> peers_;
  std::map<std::pair<Wave, int>, PendingWave> pending_;  // (wave, virtual worker)
  std::vector<std::vector<float>> running_;  // [virtual worker]: statistics at the newest label
  std::vector<std::vector<std::vector<float>>>
      slots_;  // [virtual worker][slot]: newest that came in
  std::deque<std::shared_ptr<const Snapshot>> snapshots_;  // by label, the last is the newest
  std::deque<Waiting> waiting_pulls_;
  std::deque<std::pair<VirtualWorkerId, Wave>> waiting_gates_;
  std::deque<Sending> sending_;

  struct StateMoving {
    Operation operation;
    std::vector<float> floats;
  };
  std::deque<StateMoving> states_out_;                              // to the first shard
  std::vector<StateMoving> states_in_;                              // by shard, on the first one
  std::map<Label, std::vector<std::optional<ShardState>>> states_;  // by label, by shard
  bool last_checkpoint_done_ = false;
};

}  // namespace hetpipe
