// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/parameter_server.h"

#include <algorithm>

#include "base/index.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr auto kParameters = ShardMap::What::parameters;
constexpr auto kStatistics = ShardMap::What::statistics;

std::vector<Rank> first_stages(const ServerSetup& setup) {
  std::vector<Rank> ranks;
  for (const auto& stages : setup.worker_ranks) {
    ranks.insert(ranks.end(), stages.front().begin(), stages.front().end());
  }
  return ranks;
}

}  // namespace

ParameterServer::ParameterServer(ServerSetup setup, const WaveRules& rules, const ShardMap& map,
                                 RankService& service, SharedBlocks& blocks)
    : setup_(std::move(setup)),
      rules_(rules),
      map_(map),
      service_(service),
      blocks_(blocks),
      count_(map.count(kParameters, setup_.shard)),
      parts_(setup_.server_ranks.front(), setup_.part, service),
      empty_(count_ == 0) {
  const int workers = rules.workers();
  if (setup_.shard.value == 0) {
    clock_.emplace(rules, map.shards());
    stop_.emplace(GateStop::Setup{first_stages(setup_), setup_.notice_seconds}, *clock_, service);
  }
  for (int i = 0; i < workers; ++i) {
    int first = 0;
    for (std::size_t k = 0; k < setup_.stage_end[at(i)].size(); ++k) {
      const int end = setup_.stage_end[at(i)][k];
      Peer peer;
      peer.vw = VirtualWorkerId{i};
      peer.stage = StageId{static_cast<int>(k)};
      peer.ranks = setup_.worker_ranks[at(i)][k];
      peer.parameters = map.on_shard(kParameters, setup_.shard, first, end);
      peer.statistics = map.on_shard(kStatistics, setup_.shard, first, end);
      peer.pushes = std::make_unique<PushArrivals>(
          PushArrivals::From{peer.ranks.front(), peer.vw, first, end}, rules, map, setup_.shard,
          service, blocks, setup_.pushed);
      peer.gates.assign(peer.ranks.size(), rules.start_wave());
      peer.finished.assign(peer.ranks.size(), false);
      peers_.push_back(std::move(peer));
      first = end;
    }
  }
  running_ = std::move(setup_.running);
  if (rules.by_arrival()) keep_order();
  for (const ShardSnapshot& from : setup_.snapshots) {
    const auto& snapshot = snapshots_.emplace_back(std::make_shared<Snapshot>(
        Snapshot{from.label, blocks.take(count_), from.statistics, from.average, from.state}));
    ensure(setup_.ema == 0 || from.average.size() == from.weights.size(),
           "a shard starts without the average of its weights");
    ensure(setup_.step == nullptr || !from.state.empty(),
           "a shard starts without the state of its steps");
    for (const std::vector<float>& slot : from.state) {
      ensure(slot.size() == from.weights.size(),
             "a shard's steps start with a state of another size");
    }
    ensure(std::ssize(from.weights) == count_, "a shard starts with another number of weights");
    std::copy(from.weights.begin(), from.weights.end(), snapshot->weights.get());
  }
  setup_.snapshots.clear();
  if (setup_.step && setup_.step->takes_changes()) zeros_.resize(at(count_));
  ensure(snapshots_.back()->label == rules.start_wave(), "a shard starts at another label");

  if (clock_) {
    for (int s = 0; s < map.shards(); ++s) {
      if (map.count(kParameters, ShardId{s}) == 0) clock_->leave_out(ShardId{s});
    }
    service.on<ShardArrived>([this](Rank, const ShardArrived& arrived) {
      note_arrival(arrived.shard, arrived.virtual_worker, arrived.wave);
    });
    service.on<GateRequest>([this](Rank, const GateRequest& request) {
      waiting_gates_.emplace_back(request.virtual_worker, request.wave);
    });
  }
  service.on<PullRequest>([this](Rank from, const PullRequest& request) {
    Peer& peer = peer_of(request.virtual_worker, request.stage);
    Wave& gate = peer.gates[replica_of(peer, from)];
    gate = std::max(gate, request.gate);
    waiting_pulls_.push_back({&peer, from, request.label, request.what, request.average});
  });
  service.on<PullTaken>([this](Rank from, const PullTaken& taken) {
    const auto copied = shown_.find({from, taken.label});
    ensure(copied != shown_.end(), "a rank has copied what it was not shown");
    shown_.erase(copied);
  });
  service.on<WorkerFinished>([this](Rank from, const WorkerFinished& worker) {
    Peer& peer = peer_of(worker.virtual_worker, worker.stage);
    peer.finished[replica_of(peer, from)] = true;
  });
}

void ParameterServer::keep_order() {
  std::vector<int> pulls(at(rules_.workers()));
  for (const Peer& peer : peers_) {
    if (peer.parameters.count > 0) pulls[at(peer.vw.value)] += static_cast<int>(peer.ranks.size());
  }
  order_.emplace(rules_, std::move(pulls));
  service_.on<GatePassed>([this](Rank, const GatePassed& gate) {
    order_->gate_passed(gate.virtual_worker, gate.wave, gate.label);
  });
}

ParameterServer::Peer& ParameterServer::peer_of(VirtualWorkerId vw, StageId stage) {
  const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                 [&](const Peer& p) { return p.vw == vw && p.stage == stage; });
  ensure(peer != peers_.end(), "a request from a stage that the plan does not have");
  return *peer;
}

std::size_t ParameterServer::replica_of(const Peer& peer, Rank rank) {
  const auto found = std::find(peer.ranks.begin(), peer.ranks.end(), rank);
  ensure(found != peer.ranks.end(), "a rank speaks for a stage that is not its own");
  return static_cast<std::size_t>(found - peer.ranks.begin());
}

bool ParameterServer::Peer::all_finished() const {
  return std::find(finished.begin(), finished.end(), false) == finished.end();
}

int ParameterServer::stages_here(VirtualWorkerId vw) const {
  return static_cast<int>(std::count_if(peers_.begin(), peers_.end(), [&](const Peer& p) {
    return p.vw == vw && p.parameters.count > 0;
  }));
}

// Whether one more piece has arrived.
bool ParameterServer::take_piece(Peer& peer) {
  const Wave wave = peer.pushes->next_wave();
  if (!peer.pushes->take()) return false;
  service_.note_work();
  if (peer.pushes->next_wave() > wave) end_push(peer, wave);
  return true;
}

void ParameterServer::end_push(Peer& peer, Wave wave) {
  service_.begin(format("received wave %lld of virtual worker %d, stage %d",
                        static_cast<long long>(wave), peer.vw.value, peer.stage.value));
  const auto stages = stages_arrived_.try_emplace({wave, peer.vw.value}, 0).first;
  if (++stages->second < stages_here(peer.vw)) return;
  stages_arrived_.erase(stages);
  if (clock_) {
    note_arrival(setup_.shard, peer.vw, wave);
  } else {
    service_.send(setup_.server_ranks.front(),
                  ShardArrived{.wave = wave, .virtual_worker = peer.vw, .shard = setup_.shard});
  }
}

// What has arrived is added while it is in the cache; pieces follow one another for as long as they
// come without waiting.
void ParameterServer::take_pushes() {
  for (bool more = true; more;) {
    more = false;
    for (Peer& peer : peers_) {
      while (take_piece(peer)) {
        while (form_label()) {
        }
        more = true;
      }
    }
    if (more) service_.transport().progress();
  }
}

void ParameterServer::note_arrival(ShardId shard, VirtualWorkerId vw, Wave wave) {
  const Wave before = clock_->global_clock();
  clock_->arrived(shard, vw, wave);
  for (Wave w = before; w < clock_->global_clock(); ++w) stop_->wave_done();
}

bool ParameterServer::serve(const Waiting& waiting) {
  const Snapshot& newest = *snapshots_.back();
  if (waiting.label > newest.label) return false;
  const Snapshot& oldest = *snapshots_.front();
  ensure(waiting.label >= oldest.label, "a label is requested that was given up");
  const auto& snapshot = snapshots_[at(waiting.label - oldest.label)];
  const bool weights = waiting.what == kParameters;
  if (order_ && weights && !waiting.average) order_->pulled(waiting.label);
  if (weights && !waiting.average && blocks_.reaches(waiting.rank)) {
    show(waiting, snapshot);
    return true;
  }
  const FlatRange range = weights ? waiting.peer->parameters : waiting.peer->statistics;
  const std::span<const float> from = waiting.average ? std::span<const float>(snapshot->average)
                                      : weights       ? weights_of(*snapshot)
                                                : std::span<const float>(snapshot->statistics);
  Operation sent =
      service_.transport().send(waiting.rank, Channel::pull,
                                header_of(Pulled{.label = waiting.label,
                                                 .shard = setup_.shard,
                                                 .what = waiting.what,
                                                 .average = waiting.average}),
                                std::as_bytes(from.subspan(at(range.offset), at(range.count))));
  sending_.push_back({std::move(sent), snapshot});
  return true;
}

// The rank copies its part itself, and says when it has.
void ParameterServer::show(const Waiting& waiting,
                           const std::shared_ptr<const Snapshot>& snapshot) {
  shown_.emplace(std::pair(waiting.rank, waiting.label), snapshot);
  const std::int32_t array = blocks_.show(waiting.rank, snapshot->weights.get());
  service_.send(waiting.rank, PullShown{.label = waiting.label,
                                        .offset = waiting.peer->parameters.offset,
                                        .shard = setup_.shard,
                                        .array = array});
}

std::span<const float> ParameterServer::weights_of(const Snapshot& snapshot) const {
  return {snapshot.weights.get(), at(count_)};
}

void ParameterServer::open_gates() {
  std::erase_if(waiting_gates_, [this](const auto& waiting) {
    const auto [vw, wave] = waiting;
    if (stop_->shut(wave)) return false;
    const std::optional<Label> label = clock_->decide_gate(vw, wave);
    if (!label) return false;
    stop_->gate_passed(wave);
    service_.send(setup_.worker_ranks[at(vw.value)].front().front(),
                  GateGrant{.wave = wave, .label = *label});
    if (order_) tell_order({.wave = wave, .label = *label, .virtual_worker = vw});
    return true;
  });
}

// All shards add pushes in one order.
void ParameterServer::tell_order(const GatePassed& gate) {
  for (int s = 1; s < map_.shards(); ++s) {
    if (map_.count(kParameters, ShardId{s}) == 0) continue;
    service_.send(setup_.server_ranks[at(s)], gate);
  }
  order_->gate_passed(gate.virtual_worker, gate.wave, gate.label);
}

// A label goes when no stage can ask for it any more; the newest one stays.
void ParameterServer::forget_labels() {
  Label needed = snapshots_.back()->label;
  if (order_) needed = std::min(needed, order_->oldest_to_pull().value_or(needed));
  for (const Peer& peer : peers_) {
    if (order_) break;
    if (peer.parameters.count == 0) continue;  // it asks other shards
    // For the last label alone.
    if (peer.pushes->next_wave() == rules_.end_wave(peer.vw)) continue;
    for (const Wave gate : peer.gates) needed = std::min(needed, rules_.bound_label(gate));
  }
  for (const Waiting& waiting : waiting_pulls_) needed = std::min(needed, waiting.label);
  if (setup_.checkpoints.exact) {  // the next label's state
    needed = std::min(needed, rules_.bound_label(snapshots_.back()->label));
  }
  while (snapshots_.front()->label < needed) snapshots_.pop_front();
}

void ParameterServer::poll() {
  take_pushes();
  while (form_label()) {
  }
  if (clock_) open_gates();
  // Front stages need a snapshot first; answers of one label share the server's interface.
  std::stable_sort(
      waiting_pulls_.begin(), waiting_pulls_.end(),
      [](const Waiting& a, const Waiting& b) { return a.peer->stage < b.peer->stage; });
  std::erase_if(waiting_pulls_, [this](const Waiting& waiting) { return serve(waiting); });
  std::erase_if(sending_, [](const Sending& sending) { return sending.operation.done(); });
  forget_labels();
  parts_.release_sent();
}

bool ParameterServer::finished() const {
  const bool workers =
      std::all_of(peers_.begin(), peers_.end(), [](const Peer& p) { return p.all_finished(); });
  return workers && waiting_pulls_.empty() && sending_.empty() && shown_.empty() && parts_.idle() &&
         (empty_ || snapshots_.back()->label == rules_.end_snapshot());
}

std::string ParameterServer::waiting_for() const {
  std::string text = format("server shard %d after wave %lld:", setup_.shard.value,
                            static_cast<long long>(snapshots_.back()->label));
  for (const Peer& peer : peers_) {
    if (peer.all_finished()) continue;
    text += format(" virtual worker %d stage %d (rank %d, next push wave %lld);", peer.vw.value,
                   peer.stage.value, peer.ranks.front().value,
                   static_cast<long long>(peer.pushes->next_wave()));
  }
  return text;
}

}  // namespace hetpipe
