// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/shard_map.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"

namespace hetpipe {
namespace {

std::int64_t floats(const std::vector<ParameterShape>& shapes) {
  std::int64_t count = 0;
  for (const ParameterShape& shape : shapes) count += shape.shape.elements();
  return count;
}

}  // namespace

ShardMap::ShardMap(const Model& model, std::vector<int> shard_of_layer, int shards)
    : shard_of_layer_(std::move(shard_of_layer)), shards_(shards) {
  ensure(static_cast<int>(shard_of_layer_.size()) == model.layer_count(),
         "a shard for every layer");
  for (int l = 0; l < model.layer_count(); ++l) {
    counts_[0].push_back(model.parameter_count(l));
    counts_[1].push_back(floats(model.shapes(l, 1).statistics));
    ensure(shards_ == 0 || shard_of_layer_[at(l)] >= 0 ||
               (counts_[0].back() == 0 && counts_[1].back() == 0),
           "a layer with parameters lies on no shard");
  }
}

std::vector<int> ShardMap::layers(ShardId shard) const {
  std::vector<int> found;
  for (std::size_t l = 0; l < shard_of_layer_.size(); ++l) {
    if (shard_of_layer_[l] == shard.value) found.push_back(static_cast<int>(l));
  }
  return found;
}

std::int64_t ShardMap::count(What what, ShardId shard) const {
  return on_shard(what, shard, 0, static_cast<int>(shard_of_layer_.size())).count;
}

std::vector<bool> ShardMap::empty_shards() const {
  std::vector<bool> empty;
  for (int s = 0; s < shards_; ++s) empty.push_back(count(What::parameters, ShardId{s}) == 0);
  return empty;
}

FlatRange ShardMap::on_shard(What what, ShardId shard, int first, int end) const {
  FlatRange range;
  for (int l = 0; l < end; ++l) {
    if (shard_of_layer_[at(l)] != shard.value) continue;
    (l < first ? range.offset : range.count) += counts_[at(static_cast<int>(what))][at(l)];
  }
  return range;
}

std::vector<FlatRange> ShardMap::in_stage(What what, ShardId shard, int first, int end) const {
  std::vector<FlatRange> ranges;
  std::int64_t offset = 0;
  for (int l = first; l < end; ++l) {
    const std::int64_t count = counts_[at(static_cast<int>(what))][at(l)];
    if (shard_of_layer_[at(l)] == shard.value && count > 0) {
      if (!ranges.empty() && ranges.back().offset + ranges.back().count == offset) {
        ranges.back().count += count;
      } else {
        ranges.push_back({offset, count});
      }
    }
    offset += count;
  }
  return ranges;
}

PushPieces push_pieces(const ShardMap& map, ShardId shard, int first_layer, int end_layer) {
  PushPieces pieces;
  for (const FlatRange& range :
       map.in_stage(ShardMap::What::parameters, shard, first_layer, end_layer)) {
    for (std::int64_t done = 0; done < range.count; done += kPieceNumbers) {
      pieces.parameters.push_back(
          {range.offset + done, std::min(kPieceNumbers, range.count - done)});
    }
  }
  pieces.statistics = map.on_shard(ShardMap::What::statistics, shard, first_layer, end_layer).count;
  return pieces;
}

}  // namespace hetpipe
