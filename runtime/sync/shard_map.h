// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "runtime/model/model.h"

namespace hetpipe {

// Floats [offset, offset + count) of a flat array.
struct FlatRange {
  std::int64_t offset = 0;
  std::int64_t count = 0;
  bool operator==(const FlatRange&) const = default;
};

// How the layers of a model are placed on server shards. A shard's flat array holds its layers
// in order, so the part that a stage (a contiguous slice of layers) has there is contiguous; in the
// stage's own flat array it is a list of ranges.
class ShardMap {
 public:
  enum class What { parameters, statistics };

  // shard_of_layer: -1 for layers without parameters, and for all where there are no shards.
  ShardMap(const Model& model, std::vector<int> shard_of_layer, int shards);

  int shards() const { return shards_; }
  std::vector<int> layers(ShardId shard) const;
  std::int64_t count(What what, ShardId shard) const;  // floats of the whole shard
  std::vector<bool> empty_shards() const;              // by shard: it has no parameters
  // The part of layers [first, end) that this shard holds: where it lies on the shard ...
  FlatRange on_shard(What what, ShardId shard, int first, int end) const;
  // ... and in the flat array of a stage of these layers, adjacent layers joined.
  std::vector<FlatRange> in_stage(What what, ShardId shard, int first, int end) const;

 private:
  std::vector<int> shard_of_layer_;
  int shards_;
  std::vector<std::int64_t> counts_[2];  // [what][layer]
};

// Small enough to stay in a core's cache between arriving and being added; large enough that a
// message's own cost does not count.
inline constexpr std::int64_t kPieceNumbers = std::int64_t{256} << 10;

// How one stage's push to one shard is cut into messages, the same for both ends: its parameters
// piece by piece in the shard's order, so that the server adds one while the next arrives and the
// stage sends them from where they lie, then the running statistics.
struct PushPieces {
  std::vector<FlatRange> parameters;  // in the stage's flat array
  std::int64_t statistics = 0;        // floats; 0: no message
};
PushPieces push_pieces(const ShardMap& map, ShardId shard, int first_layer, int end_layer);

}  // namespace hetpipe
