// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/push_arrivals.h"

#include "base/error.h"
#include "base/index.h"

namespace hetpipe {
namespace {

constexpr std::size_t kReceives = 2;  // one is filled while the other one's floats are added

// That so many numbers of the type fill, the last one maybe in part.
std::int64_t floats_of(std::int64_t count, ElementType type) {
  const std::size_t bytes = at(count) * bytes_of(type);
  return static_cast<std::int64_t>((bytes + sizeof(float) - 1) / sizeof(float));
}

}  // namespace

PushArrivals::PushArrivals(const From& from, const WaveRules& rules, const ShardMap& map,
                           ShardId shard, RankService& service, SharedBlocks& blocks,
                           ElementType pushed)
    : from_(from),
      rules_(rules),
      shard_(shard),
      service_(service),
      blocks_(blocks),
      pushed_(pushed),
      parameters_(
          map.on_shard(ShardMap::What::parameters, shard, from.first_layer, from.end_layer).count),
      statistics_(
          map.on_shard(ShardMap::What::statistics, shard, from.first_layer, from.end_layer).count),
      parameter_floats_(floats_of(parameters_, pushed)),
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

// Of the piece that is posted next, whose first number of the push this is.
std::span<std::byte> PushArrivals::memory_of_piece(Push& push, std::int64_t first) {
  if (posted_ == pieces_.parameters.size()) {
    return std::as_writable_bytes(
        std::span(push.memory.get() + parameter_floats_, at(statistics_)));
  }
  const std::size_t size = bytes_of(pushed_);
  return {reinterpret_cast<std::byte*>(push.memory.get()) + at(first) * size,
          at(pieces_.parameters[posted_].count) * size};
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
    if (posted_ == 0) {
      Push& begun = begin(parameter_floats_ + statistics_);
      begun.parameters = {numbers_at(begun.memory.get()), ranges_};
    }
    Push& push = pushes_.back();
    std::int64_t first = push.arrived;
    for (const Receive& receive : receives_) first += receive.count;
    const std::int64_t count = posted_ < pieces.size() ? pieces[posted_].count : statistics_;
    receives_.push_back(
        {transport.receive(from_.rank, Channel::push, memory_of_piece(push, first)), count});
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
  push.arrived += receives_.front().count;
  receives_.pop_front();
  if (push.arrived == parameters_ + statistics_) {
    push.arrived = parameters_;
    push.statistics = {push.memory.get() + parameter_floats_, at(statistics_)};
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
  push.parameters = {numbers_at(lies), ranges_};
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
