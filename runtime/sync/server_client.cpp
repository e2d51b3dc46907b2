// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/server_client.h"

#include <algorithm>

#include "base/text.h"
#include "runtime/sync/messages.h"

namespace hetpipe {
ServerClient::ServerClient(VirtualWorkerId vw, Stage& stage, const WaveRules& rules,
                           const ShardMap& map, std::vector<Rank> server_ranks,
                           CheckpointRule checkpoints, CheckpointSender& parts,
                           DeviceTransport& transport, RankService& service, StageReplica replica,
                           ForwardHold* hold)
    : vw_(vw),
      stage_(stage),
      rules_(rules),
      map_(map),
      server_ranks_(std::move(server_ranks)),
      checkpoints_(std::move(checkpoints)),
      parts_(parts),
      transport_(transport),
      service_(service),
      replica_(std::move(replica)),
      sums_(replica_.sums, transport, service),
      hold_(hold) {
  service.on<GateGrant>(
      [this](Rank, const GateGrant& grant) { granted_[grant.wave] = grant.label; });
}

void ServerClient::drop_sent() {
  while (!sending_.empty() && sending_.front().operation.done()) sending_.pop_front();
}

void ServerClient::push(Wave wave, std::shared_ptr<const Buffer> sum,
                        const std::vector<float>& own_statistics) {
  drop_sent();
  std::vector<float> statistics = own_statistics;
  sums_.average(statistics);
  if (replica_.number > 0) return;
  for (int s = 0; s < map_.shards(); ++s) {
    const ShardId shard{s};
    const int first = stage_.first_layer();
    const int end = stage_.end_layer();
    const PushPieces pieces = push_pieces(map_, shard, first, end);
    const MessageHeader header = header_of(PushPiece{.wave = wave, .virtual_worker = vw_});
    const Rank to = server_ranks_[static_cast<std::size_t>(s)];
    const std::span<const std::byte> all(sum->data(), sum->bytes());
    for (const FlatRange& piece : pieces.parameters) {  // from where they lie
      const auto bytes = all.subspan(static_cast<std::size_t>(piece.offset) * sizeof(float),
                                     static_cast<std::size_t>(piece.count) * sizeof(float));
      sending_.push_back({transport_.send(to, Channel::push, header, bytes), sum, {}});
    }
    if (pieces.statistics == 0) continue;
    std::vector<float> payload;
    for (const FlatRange& range : map_.in_stage(ShardMap::What::statistics, shard, first, end)) {
      payload.insert(payload.end(), statistics.begin() + range.offset,
                     statistics.begin() + range.offset + range.count);
    }
    sending_.push_back({{}, nullptr, std::move(payload)});
    sending_.back().operation = transport_.send_from_host(
        to, Channel::push, header, std::as_bytes(std::span(sending_.back().payload)));
  }
}

Label ServerClient::pass_gate(Wave wave) {
  const bool asks = replica_.number == 0;
  const Rank answers = asks ? server_ranks_.front() : replica_.ranks.front();
  if (asks) service_.send(answers, GateRequest{.wave = wave, .virtual_worker = vw_});
  service_.wait_for_others(
      [&] { return granted_.contains(wave); },
      [&] {
        return Awaited(
            format("the gate of wave %lld of virtual worker %d at %s, rank %d (it opens when every "
                   "virtual worker has pushed wave %lld)",
                   static_cast<long long>(wave), vw_.value, asks ? "the clock" : "replica 0",
                   answers.value, static_cast<long long>(wave - 1 - rules_.distance)),
            answers);
      });
  const Label label = granted_.at(wave);
  granted_.erase(wave);
  for (std::size_t r = 1; asks && r < replica_.ranks.size(); ++r) {
    service_.send(replica_.ranks[r], GateGrant{.wave = wave, .label = label});
  }
  return label;
}

ServerClient::Asked ServerClient::ask(Wave gate, Label label, ShardMap::What what) {
  const bool weights = what == ShardMap::What::parameters;
  const std::int64_t count = weights ? stage_.parameters().count() : stage_.statistics().count();
  Asked asked{.label = label,
              .weights = Buffer(stage_.device(), stage_.stream(),
                                static_cast<std::size_t>(count) * sizeof(float),
                                weights ? MemoryKind::versions : MemoryKind::workspace),
              .parts = {},
              .operations = {},
              .shards = {}};
  for (int s = 0; s < map_.shards(); ++s) {
    const ShardId shard{s};
    const auto ranges = map_.in_stage(what, shard, stage_.first_layer(), stage_.end_layer());
    if (ranges.empty()) continue;
    std::int64_t floats = 0;
    for (const FlatRange& range : ranges) floats += range.count;
    const Rank server = server_ranks_[static_cast<std::size_t>(s)];
    std::vector<float> part;
    if (ranges.size() == 1) {
      asked.operations.push_back(transport_.receive(
          server, Channel::pull,
          {asked.weights.data() + static_cast<std::size_t>(ranges[0].offset) * sizeof(float),
           static_cast<std::size_t>(floats) * sizeof(float)}));
    } else {
      part.resize(static_cast<std::size_t>(floats));
      asked.operations.push_back(service_.transport().receive(
          server, Channel::pull, std::as_writable_bytes(std::span(part))));
    }
    asked.parts.push_back(std::move(part));  // moving keeps the elements where they are
    asked.shards.push_back(shard);
    service_.send(server, PullRequest{.gate = gate,
                                      .label = label,
                                      .virtual_worker = vw_,
                                      .stage = stage_.id(),
                                      .what = what});
  }
  return asked;
}

Buffer ServerClient::collect(Asked asked, ShardMap::What what) {
  for (std::size_t i = 0; i < asked.operations.size(); ++i) {
    const ShardId shard = asked.shards[i];
    service_.wait_for_others(
        [&] { return asked.operations[i].done(); },
        [&] {
          const Rank server = server_ranks_[static_cast<std::size_t>(shard.value)];
          return Awaited(format("the weights after wave %lld from server shard %d, rank %d (for "
                                "virtual worker %d, stage %d)",
                                static_cast<long long>(asked.label), shard.value, server.value,
                                vw_.value, stage_.id().value),
                         server);
        });
    ensure(read_as<Pulled>(asked.operations[i].header()) ==
               Pulled{.label = asked.label, .shard = shard, .what = what},
           "a server answered with another snapshot");
    if (asked.parts[i].empty()) continue;
    const float* from = asked.parts[i].data();
    for (const FlatRange& range :
         map_.in_stage(what, shard, stage_.first_layer(), stage_.end_layer())) {
      stage_.device().copy(
          stage_.stream(),
          asked.weights.data() + static_cast<std::size_t>(range.offset) * sizeof(float),
          reinterpret_cast<const std::byte*>(from),
          static_cast<std::size_t>(range.count) * sizeof(float));
      from += range.count;
    }
    uploading_.push_back({stage_.stream().record(), std::move(asked.parts[i])});
  }
  while (!uploading_.empty() && uploading_.front().read->done()) uploading_.pop_front();
  return std::move(asked.weights);
}

void ServerClient::prefetch(Wave gate, Label label) {
  prefetched_ = ask(gate, label, ShardMap::What::parameters);
}

StageSnapshot ServerClient::pull(Wave gate, Label label, WithStatistics statistics) {
  StageSnapshot snapshot;
  snapshot.label = label;
  ensure(!prefetched_ || prefetched_->label == label, "another label was requested ahead");
  Asked asked =
      prefetched_ ? std::move(*prefetched_) : ask(gate, label, ShardMap::What::parameters);
  prefetched_.reset();
  snapshot.weights = collect(std::move(asked), ShardMap::What::parameters);
  if (statistics == WithStatistics::yes) {
    snapshot.statistics =
        collect(ask(gate, label, ShardMap::What::statistics), ShardMap::What::statistics);
  }
  return snapshot;
}

void ServerClient::finish() {
  if (prefetched_) {  // for a gate behind the minibatch that the run stopped before
    collect(std::move(*prefetched_), ShardMap::What::parameters);
    prefetched_.reset();
  }
  sums_.finish_reduce();
  service_.settle(stage_.stream(),
                  [] { return std::string("weights from a server to reach the device"); });
  uploading_.clear();
  for (const Sending& sending : sending_) {
    service_.wait(sending.operation, [] { return std::string("the last push to be sent"); });
  }
  sending_.clear();
  service_.wait(
      [this] {
        parts_.release_sent();
        return parts_.idle();
      },
      [] { return std::string("the last part of a checkpoint to be sent"); });
  for (const Rank server : server_ranks_) {
    service_.send(server, WorkerFinished{.virtual_worker = vw_, .stage = stage_.id()});
  }
}

}  // namespace hetpipe
