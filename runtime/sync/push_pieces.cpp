// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/push_pieces.h"

#include <algorithm>

namespace hetpipe {

PushPieces push_pieces(const ShardMap& map, ShardId shard, int first_layer, int end_layer) {
  PushPieces pieces;
  for (const FlatRange& range :
       map.in_stage(ShardMap::What::parameters, shard, first_layer, end_layer)) {
    for (std::int64_t done = 0; done < range.count; done += kPieceFloats) {
      pieces.parameters.push_back(
          {range.offset + done, std::min(kPieceFloats, range.count - done)});
    }
  }
  pieces.statistics = map.on_shard(ShardMap::What::statistics, shard, first_layer, end_layer).count;
  return pieces;
}

}  // namespace hetpipe
