// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/push_arrivals.h"

#include "base/error.h"
#include "base/index.h"

namespace hetpipe {
namespace {

constexpr std::size_t kReceives = 2;  // one is filled while the other one's floats are added

}  // namespace

PushArrivals::PushArrivals(const From& from, const WaveRules& rules, const ShardMap& map,
                           ShardId shard, RankService& service, SharedBlocks& blocks)
    : from_(from),
      rules_(rules),
      shard_(shard),
      service_(service),
      blocks_(blocks),
      parameters_(
          map.on_shard(ShardMap::What::parameters, shard, from.first_layer, from.end_layer).count),
      statistics_(
          map.on_shard(ShardMap::What::statistics, shard, from.first_layer, from.end_layer).count),
      pieces_(push_pieces(map, shard, from.first_layer, from.end_layer)),
      next_wave_(rules.start_wave()) {
  ranges_ = in_place()
                ? map.in_stage(ShardMap::What::parameters, shard, from.first_layer, from.end_layer)
                : std::vector{FlatRange{0, parameters_}};
  post();
}

PushArrivals::Push& PushArrivals::begin(std::int64_t floats) {
  Push& push = pushes_.emplace_back();
  push.wave = next_wave_;
  push.memory = blocks_.take(floats);
  return push;
}

void PushArrivals::post() {
  if (parameters_ == 0 || next_wave_ == rules_.end_wave(from_.virtual_worker)) return;
  Transport& transport = service_.transport();
  if (in_place()) {
    if (!receives_.empty()) return;
    const Push& push = begin(statistics_);
    receives_.push_back(
        {transport.receive(from_.rank, Channel::push,
                           std::as_writable_bytes(std::span(push.memory.get(), at(statistics_)))),
         statistics_});
    return;
  }
  const auto& pieces = pieces_.parameters;
  const std::size_t end = pieces.size() + (statistics_ > 0 ? 1 : 0);
  while (receives_.size() < kReceives && posted_ < end) {
    if (posted_ == 0) begin(parameters_ + statistics_).parameters.ranges = ranges_;
    Push& push = pushes_.back();
    if (posted_ == 0) push.parameters.base = push.memory.get();
    std::int64_t first = push.arrived;
    for (const Receive& receive : receives_) first += receive.floats;
    const std::int64_t floats = posted_ < pieces.size() ? pieces[posted_].count : statistics_;
    const std::span into(push.memory.get() + first, at(floats));
    receives_.push_back(
        {transport.receive(from_.rank, Channel::push, std::as_writable_bytes(into)), floats});
    ++posted_;
  }
}

bool PushArrivals::take() {
  if (receives_.empty() || !receives_.front().operation.done()) return false;
  if (in_place()) return take_shown();
  ensure(read_as<PushPiece>(receives_.front().operation.header()) ==
             PushPiece{.wave = next_wave_, .virtual_worker = from_.virtual_worker},
         "a push of another wave or virtual worker arrived");
  Push& push = pushes_.back();
  push.arrived += receives_.front().floats;
  receives_.pop_front();
  if (push.arrived == parameters_ + statistics_) {
    push.arrived = parameters_;
    push.statistics = {push.memory.get() + parameters_, at(statistics_)};
    ++next_wave_;
    posted_ = 0;
  }
  post();
  return true;
}

bool PushArrivals::take_shown() {
  const auto shown = read_as<PushShown>(receives_.front().operation.header());
  ensure(shown.wave == next_wave_ && shown.virtual_worker == from_.virtual_worker,
         "a push of another wave or virtual worker arrived");
  const float* const lies = blocks_.find(from_.rank, shown.array);
  if (lies == nullptr) return false;
  Push& push = pushes_.back();
  push.parameters = {lies, ranges_};
  push.arrived = parameters_;
  push.statistics = {push.memory.get(), at(statistics_)};
  receives_.pop_front();
  ++next_wave_;
  post();
  return true;
}

const PushArrivals::Push* PushArrivals::of(Wave wave) const {
  return pushes_.empty() || pushes_.front().wave != wave ? nullptr : &pushes_.front();
}

void PushArrivals::added() {
  if (in_place()) {
    service_.send(from_.rank, PushAdded{.wave = pushes_.front().wave, .shard = shard_});
  }
  pushes_.pop_front();
}

}  // namespace hetpipe
