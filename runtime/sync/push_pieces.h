// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/sync/shard_map.h"

namespace hetpipe {

// Small enough to stay in a core's cache between arriving and being added; large enough that a
// message's own cost does not count.
inline constexpr std::int64_t kPieceFloats = std::int64_t{256} << 10;

// How one stage's push to one shard is cut into messages, the same for both ends: its parameters
// piece by piece in the shard's order, so that the server adds one while the next arrives and the
// stage sends them from where they lie, then the running statistics.
struct PushPieces {
  std::vector<FlatRange> parameters;  // in the stage's flat array
  std::int64_t statistics = 0;        // floats; 0: no message
};
PushPieces push_pieces(const ShardMap& map, ShardId shard, int first_layer, int end_layer);

}  // namespace hetpipe
