// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/server_client.h"

#include <algorithm>
#include <cstring>

#include "base/index.h"
#include "base/text.h"
#include "runtime/sync/messages.h"
#include "runtime/sync/past_caches.h"

namespace hetpipe {
ServerClient::ServerClient(VirtualWorkerId vw, Stage& stage, const WaveRules& rules,
                           const ShardMap& map, std::vector<Rank> server_ranks,
                           CheckpointRule checkpoints, CheckpointSender& parts,
                           DeviceTransport& transport, RankService& service, GateLabels& gates,
                           SharedBlocks& blocks, StageReplica replica, ForwardHold* hold,
                           ElementType pushed)
    : vw_(vw),
      stage_(stage),
      rules_(rules),
      map_(map),
      server_ranks_(std::move(server_ranks)),
      checkpoints_(std::move(checkpoints)),
      parts_(parts),
      transport_(transport),
      service_(service),
      gates_(gates),
      blocks_(blocks),
      replica_(std::move(replica)),
      sums_(replica_.sums, transport, service),
      hold_(hold),
      pushed_(pushed) {
  service.on<PushAdded>([this](Rank, const PushAdded& added) {
    const auto state = to_be_added_.extract({added.wave, added.shard});
    ensure(!state.empty(), "a server has added what was not pushed");
    state.mapped()->done = true;
  });
  service.on<PullShown>([this](Rank, const PullShown& shown) {
    shown_[{shown.label, shown.shard}] = shown;
  });
}

void ServerClient::drop_sent() {
  std::erase_if(sending_, [](const Sending& sending) { return sending.operation.done(); });
}

bool ServerClient::all_pushed() {
  drop_sent();
  return sending_.empty();
}

// The server adds the sum from where it lies.
void ServerClient::push_in_place(Wave wave, ShardId shard, std::shared_ptr<const Buffer> sum,
                                 std::vector<float> statistics) {
  const Rank to = server_ranks_[at(shard.value)];
  const float* lies = sum->as<float>();
  std::shared_ptr<float> copy;
  if (!blocks_.owns(lies)) {
    const std::size_t whole = sum->bytes() / sizeof(float);
    const std::size_t rest = sum->bytes() % sizeof(float);
    copy = blocks_.take(static_cast<std::int64_t>(whole + (rest > 0 ? 1 : 0)));
    copy_large(copy.get(), lies, static_cast<std::int64_t>(whole));
    std::memcpy(copy.get() + whole, lies + whole, rest);
    lies = copy.get();
  }
  const PushShown shown{.wave = wave, .virtual_worker = vw_, .array = blocks_.show(to, lies)};
  const auto added = to_be_added_[{wave, shard}] = std::make_shared<Added>();
  sending_.push_back({Operation(added), std::move(sum), {}, std::move(copy)});
  sending_.push_back({{}, nullptr, std::move(statistics), nullptr});
  Sending& last = sending_.back();
  last.operation = transport_.send_from_host(to, Channel::push, header_of(shown),
                                             std::as_bytes(std::span(last.payload)));
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
    if (pieces.parameters.empty()) continue;
    std::vector<float> payload;
    for (const FlatRange& range : map_.in_stage(ShardMap::What::statistics, shard, first, end)) {
      payload.insert(payload.end(), statistics.begin() + range.offset,
                     statistics.begin() + range.offset + range.count);
    }
    const Rank to = server_ranks_[at(s)];
    if (blocks_.reaches(to)) {
      push_in_place(wave, shard, sum, std::move(payload));
      continue;
    }
    const MessageHeader header = header_of(PushPiece{.wave = wave, .virtual_worker = vw_});
    const std::span<const std::byte> all(sum->data(), sum->bytes());
    const std::size_t size = bytes_of(pushed_);
    for (const FlatRange& piece : pieces.parameters) {  // from where they lie
      const auto bytes = all.subspan(at(piece.offset) * size, at(piece.count) * size);
      sending_.push_back({transport_.send(to, Channel::push, header, bytes), sum, {}, nullptr});
    }
    if (pieces.statistics == 0) continue;
    sending_.push_back({{}, nullptr, std::move(payload), nullptr});
    sending_.back().operation = transport_.send_from_host(
        to, Channel::push, header, std::as_bytes(std::span(sending_.back().payload)));
  }
}

Label ServerClient::pass_gate(Wave wave) {
  const bool asks = replica_.number == 0 && !replica_.asker;
  const Rank answers =
      asks ? server_ranks_.front() : replica_.asker.value_or(replica_.ranks.front());
  if (asks) service_.send(answers, GateRequest{.wave = wave, .virtual_worker = vw_});
  service_.wait_for_others(
      [&] { return gates_.knows(wave); },
      [&] {
        return Awaited(
            format("the gate of wave %lld of virtual worker %d at %s, rank %d (it opens when %s "
                   "has pushed wave %lld)",
                   static_cast<long long>(wave), vw_.value,
                   asks             ? "the clock"
                   : replica_.asker ? "stage 0"
                                    : "replica 0",
                   answers.value, rules_.by_arrival() ? "it" : "every virtual worker",
                   static_cast<long long>(wave - 1 - (rules_.by_arrival() ? 0 : rules_.distance))),
            answers);
      });
  const Label label = gates_.take(wave);
  if (!asks) return label;
  const GateGrant grant{.wave = wave, .label = label};
  for (std::size_t r = 1; r < replica_.ranks.size(); ++r) service_.send(replica_.ranks[r], grant);
  for (const Rank rank : replica_.told) service_.send(rank, grant);
  return label;
}

std::vector<FlatRange> ServerClient::ranges_on(ShardId shard, ShardMap::What what) const {
  return map_.in_stage(what, shard, stage_.first_layer(), stage_.end_layer());
}

ServerClient::Asked ServerClient::ask(Wave gate, Label label, ShardMap::What what, bool average) {
  const bool weights = what == ShardMap::What::parameters;
  const std::int64_t count = weights ? stage_.parameters().count() : stage_.statistics().count();
  Asked asked{.label = label,
              .average = average,
              .weights = Buffer(stage_.device(), stage_.stream(),
                                static_cast<std::size_t>(count) * sizeof(float),
                                weights ? MemoryKind::versions : MemoryKind::workspace),
              .shards = {}};
  for (int s = 0; s < map_.shards(); ++s) {
    const auto ranges = ranges_on(ShardId{s}, what);
    if (ranges.empty()) continue;
    std::int64_t floats = 0;
    for (const FlatRange& range : ranges) floats += range.count;
    const Rank server = server_ranks_[at(s)];
    AskedShard& asks = asked.shards.emplace_back();
    asks.shard = ShardId{s};
    asks.shown = weights && !average && blocks_.reaches(server);
    if (!asks.shown && ranges.size() == 1) {
      asks.operation =
          transport_.receive(server, Channel::pull,
                             {asked.weights.data() + at(ranges[0].offset) * sizeof(float),
                              at(floats) * sizeof(float)});
    } else if (!asks.shown) {
      asks.part.resize(at(floats));  // moving keeps the elements where they are
      asks.operation = service_.transport().receive(server, Channel::pull,
                                                    std::as_writable_bytes(std::span(asks.part)));
    }
    service_.send(server, PullRequest{.gate = gate,
                                      .label = label,
                                      .virtual_worker = vw_,
                                      .stage = stage_.id(),
                                      .what = what,
                                      .average = average});
  }
  return asked;
}

Buffer ServerClient::collect(Asked asked, ShardMap::What what) {
  for (AskedShard& asks : asked.shards) {
    const ShardId shard = asks.shard;
    const Rank server = server_ranks_[at(shard.value)];
    const float* lies = nullptr;
    const auto is_there = [&] {
      if (!asks.shown) return asks.operation.done();
      const auto shown = shown_.find({asked.label, shard});
      if (shown == shown_.end()) return false;
      lies = blocks_.find(server, shown->second.array);
      return lies != nullptr;
    };
    service_.wait_for_others(is_there, [&] {
      return Awaited(format("the weights after wave %lld from server shard %d, rank %d (for "
                            "virtual worker %d, stage %d)",
                            static_cast<long long>(asked.label), shard.value, server.value,
                            vw_.value, stage_.id().value),
                     server);
    });
    if (asks.shown) {
      const auto shown = shown_.extract({asked.label, shard});
      lies += shown.mapped().offset;
      for (const FlatRange& range : ranges_on(shard, what)) {
        copy_large(asked.weights.as<float>() + range.offset, lies, range.count);
        lies += range.count;
      }
      service_.send(server, PullTaken{.label = asked.label});  // the copy was made in place
      continue;
    }
    ensure(read_as<Pulled>(asks.operation.header()) ==
               Pulled{.label = asked.label, .shard = shard, .what = what, .average = asked.average},
           "a server answered with another snapshot");
    if (asks.part.empty()) continue;
    const float* from = asks.part.data();
    for (const FlatRange& range : ranges_on(shard, what)) {
      stage_.device().copy(stage_.stream(), asked.weights.data() + at(range.offset) * sizeof(float),
                           reinterpret_cast<const std::byte*>(from),
                           at(range.count) * sizeof(float));
      from += range.count;
    }
    uploading_.push_back({stage_.stream().record(), std::move(asks.part)});
  }
  while (!uploading_.empty() && uploading_.front().read->done()) uploading_.pop_front();
  return std::move(asked.weights);
}

void ServerClient::prefetch(Wave gate, Label label) {
  prefetched_ = ask(gate, label, ShardMap::What::parameters);
}

StageSnapshot ServerClient::pull(Wave gate, Label label, WithStatistics statistics,
                                 WeightsFor what) {
  StageSnapshot snapshot;
  snapshot.label = label;
  const bool average = what == WeightsFor::evaluation_by_average;
  if (average && prefetched_) {  // there is memory for one of the two
    collect(std::move(*prefetched_), ShardMap::What::parameters);
    prefetched_.reset();
  }
  ensure(!prefetched_ || prefetched_->label == label, "another label was requested ahead");
  Asked asked =
      prefetched_ ? std::move(*prefetched_) : ask(gate, label, ShardMap::What::parameters, average);
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
  service_.wait_for_others([this] { return all_pushed(); },
                           [] { return std::string("the last push to be sent and added"); });
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
