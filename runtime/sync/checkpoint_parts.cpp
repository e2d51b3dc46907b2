// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/checkpoint_parts.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/index.h"
#include "base/text.h"

namespace hetpipe {
namespace {

void write(ByteWriter& writer, const ShardValues& snapshot) {
  writer.number(snapshot.label);
  writer.list(snapshot.weights);
  writer.list(snapshot.statistics);
  writer.list(snapshot.average);
  writer.number(std::ssize(snapshot.state));
  for (const std::vector<float>& slot : snapshot.state) writer.list(slot);
}

ShardSnapshot read_snapshot(ByteReader& reader) {
  ShardSnapshot snapshot;
  snapshot.label = reader.number();
  snapshot.weights = reader.list();
  snapshot.statistics = reader.list();
  snapshot.average = reader.list();
  snapshot.state = reader.lists();
  return snapshot;
}

}  // namespace

std::vector<std::byte> to_bytes(const ShardValues& snapshot,
                                const std::vector<ShardValues>& earlier) {
  ByteWriter writer;
  write(writer, snapshot);
  writer.number(static_cast<std::int64_t>(earlier.size()));
  for (const ShardValues& one : earlier) write(writer, one);
  return writer.take();
}

ShardState shard_state_from(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  ShardState state{.snapshot = read_snapshot(reader), .earlier = {}};
  for (std::int64_t left = reader.number(); left > 0; --left) {
    state.earlier.push_back(read_snapshot(reader));
  }
  ensure(reader.done(), "a shard's state is longer than it says");
  return state;
}

std::size_t bytes_of(const CheckpointParts& parts) {
  std::size_t floats = 0;
  const auto add = [&floats](const auto& lists) {
    for (const auto& list : lists) floats += list.size();
  };
  for (const auto& stages : parts.workers) {
    for (const StageState& stage : stages) {
      add(stage.slots);
      floats += stage.weights.size() + stage.statistics.size() + stage.average.size();
      if (!stage.exact) continue;
      floats += stage.exact->base.size();
      add(stage.exact->updates);
      add(stage.exact->own_waves);
      floats += stage.exact->wave_sum.size();
    }
  }
  for (const ShardState& shard : parts.shards) {
    const auto count = [&](const ShardSnapshot& of) {
      floats += of.weights.size() + of.statistics.size() + of.average.size();
      add(of.state);
    };
    count(shard.snapshot);
    for (const ShardSnapshot& earlier : shard.earlier) count(earlier);
  }
  return floats * sizeof(float);
}

bool CheckpointRule::due(const WaveRules& rules, Label label) const {
  if (!enabled || label <= rules.start_wave()) return false;
  return label == rules.end_label() || (next && next(label - 1) == label);
}

Saves CheckpointRule::of_stage(const WaveRules& rules, VirtualWorkerId vw, Label label) const {
  const bool wanted = due(rules, label) || (enabled && label == rules.end_wave(vw));
  return !wanted ? Saves::nothing : exact ? Saves::exactly : Saves::state;
}

bool can_be_exact(const WaveRules& rules) {
  return rules.pull == PullRule::bound && rules.distance < kUnbounded;
}

CheckpointSender::CheckpointSender(Rank collector, int part, RankService& service)
    : collector_(collector), part_(part), service_(service) {}

void CheckpointSender::send(Label label, std::vector<std::byte> bytes) {
  release_sent();
  service_.send(collector_, CheckpointComing{.label = label,
                                             .bytes = static_cast<std::int64_t>(bytes.size()),
                                             .part = part_});
  sending_.push_back({std::move(bytes), {}});
  sending_.back().operation = service_.transport().send(
      collector_, Channel::checkpoint, header_of(CheckpointPart{.label = label, .part = part_}),
      sending_.back().bytes);
}

void CheckpointSender::release_sent() {
  while (!sending_.empty() && sending_.front().operation.done()) sending_.pop_front();
}

PartNumbers::PartNumbers(std::vector<int> stages, int shards)
    : stages_(std::move(stages)), shards_(shards) {
  for (const int count : stages_) first_shard_ += count;
}

int PartNumbers::of_stage(VirtualWorkerId vw, StageId stage) const {
  int number = stage.value;
  for (int i = 0; i < vw.value; ++i) number += stages_[at(i)];
  return number;
}

CheckpointCollector::CheckpointCollector(Setup setup, const WaveRules& rules, RankService& service)
    : setup_(std::move(setup)),
      rules_(rules),
      service_(service),
      parts_(at(setup_.numbers.count())),
      handed_over_(rules.start_wave()),
      asked_(rules.start_wave()) {
  service.on<CheckpointConfirmed>([this](Rank, const CheckpointConfirmed& answer) {
    ensure(answer.label == asked_, "an answer to another question");
    ++answers_;
  });
  service.on<CheckpointComing>([this](Rank from, const CheckpointComing& announced) {
    Coming& coming = coming_.emplace_back();
    coming.announced = {.label = announced.label, .part = announced.part};
    coming.bytes.resize(at(announced.bytes));
    coming.operation =
        service_.transport().receive(from, Channel::checkpoint, std::span(coming.bytes));
  });
}

std::optional<Label> CheckpointCollector::next_due() const {
  const Label end = rules_.end_label();
  if (!setup_.rule.enabled || handed_over_ >= end) return std::nullopt;
  const auto next = setup_.rule.next ? setup_.rule.next(handed_over_) : std::nullopt;
  return std::min(next.value_or(end), end);
}

// A stage whose run ended before this label has sent its last part at that end.
const std::vector<std::byte>* CheckpointCollector::stage_bytes(VirtualWorkerId vw, StageId stage,
                                                               Label label) const {
  const auto& parts = parts_[at(setup_.numbers.of_stage(vw, stage))];
  const auto found = parts.find(std::min(label, rules_.end_wave(vw)));
  return found == parts.end() ? nullptr : &found->second;
}

bool CheckpointCollector::is_empty(int shard) const {
  return !setup_.empty_shards.empty() && setup_.empty_shards[at(shard)];
}

bool CheckpointCollector::is_complete(Label label) const {
  for (int s = 0; s < setup_.numbers.shards(); ++s) {
    if (is_empty(s)) continue;
    if (!parts_[at(setup_.numbers.of_shard(ShardId{s}))].contains(label)) return false;
  }
  for (int i = 0; i < setup_.numbers.workers(); ++i) {
    const VirtualWorkerId vw{i};
    if (rules_.end_wave(vw) == rules_.start_wave()) continue;  // it plays none
    for (int k = 0; k < setup_.numbers.stages()[at(i)]; ++k) {
      if (stage_bytes(vw, StageId{k}, label) == nullptr) return false;
    }
  }
  return true;
}

void CheckpointCollector::hand_over(Label label) {
  CheckpointParts parts{.label = label, .workers = {}, .shards = {}};
  for (int i = 0; i < setup_.numbers.workers(); ++i) {
    const VirtualWorkerId vw{i};
    std::vector<StageState>& stages = parts.workers.emplace_back();
    for (int k = 0; k < setup_.numbers.stages()[at(i)]; ++k) {
      const StageId stage{k};
      const auto* bytes = stage_bytes(vw, stage, label);
      stages.push_back(bytes == nullptr ? setup_.unplayed(vw, stage) : stage_state_from(*bytes));
    }
  }
  std::vector<Label> earlier;  // of any shard: all keep the same
  for (int s = 0; s < setup_.numbers.shards(); ++s) {
    ShardState& shard = parts.shards.emplace_back();
    shard.snapshot.label = label;
    if (is_empty(s)) continue;
    shard = shard_state_from(parts_[at(setup_.numbers.of_shard(ShardId{s}))].at(label));
    earlier.clear();
    for (const ShardSnapshot& snapshot : shard.earlier) earlier.push_back(snapshot.label);
  }
  for (int s = 0; s < setup_.numbers.shards(); ++s) {
    for (const Label before : earlier) {
      if (is_empty(s)) parts.shards[at(s)].earlier.push_back({before, {}, {}, {}});
    }
  }
  handed_over_ = label;
  for (int i = 0; i < setup_.numbers.workers(); ++i) {
    const VirtualWorkerId vw{i};
    for (int k = 0; k < setup_.numbers.stages()[at(i)]; ++k) {
      std::erase_if(parts_[at(setup_.numbers.of_stage(vw, StageId{k}))], [&](const auto& part) {
        return part.first <= label && part.first != rules_.end_wave(vw);
      });
    }
  }
  for (int s = 0; s < setup_.numbers.shards(); ++s) {
    parts_[at(setup_.numbers.of_shard(ShardId{s}))].erase(label);
  }
  setup_.complete(std::move(parts));
}

void CheckpointCollector::poll() {
  std::erase_if(coming_, [this](Coming& coming) {
    if (!coming.operation.done()) return false;
    const auto part = read_as<CheckpointPart>(coming.operation.header());
    ensure(part == coming.announced, "a part of a checkpoint that was not announced");
    parts_[at(part.part)].emplace(part.label, std::move(coming.bytes));
    return true;
  });
  for (auto due = next_due(); due && is_complete(*due); due = next_due()) {
    if (asked_ < *due) ask_all(*due);
    if (answers_ < service_.transport().ranks()) return;
    hand_over(*due);
  }
}

void CheckpointCollector::ask_all(Label label) {
  asked_ = label;
  answers_ = 0;
  service_.tell_all(CheckpointConfirm{.label = label});
}

void confirm_checkpoints(RankService& service) {
  service.on<CheckpointConfirm>([&service](Rank from, const CheckpointConfirm& asked) {
    service.send(from, CheckpointConfirmed{.label = asked.label});
  });
}

bool CheckpointCollector::finished() const { return !next_due(); }

std::string CheckpointCollector::waiting_for() const {
  const auto due = next_due();
  if (!due) return "nothing";
  return format("the parts of the checkpoint after wave %lld", static_cast<long long>(*due));
}

}  // namespace hetpipe
