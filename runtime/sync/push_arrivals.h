// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "partitioner/schedule/wave_rules.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/sync/label_sum.h"
#include "runtime/sync/messages.h"
#include "runtime/sync/shard_map.h"
#include "runtime/sync/shared_blocks.h"

namespace hetpipe {

// The pushes of one stage of a virtual worker to one shard, wave after wave, as they arrive: piece
// by piece into memory of this rank or, from a rank in reach, all at once where they lie.
class PushArrivals {
 public:
  struct Push {
    Wave wave = 0;
    std::int64_t arrived = 0;           // parameters, in the shard's order
    ScatteredNumbers parameters;        // the first `arrived` may be read
    std::span<const float> statistics;  // once all has arrived
    std::shared_ptr<float> memory;      // of this rank
  };
  struct From {
    Rank rank;
    VirtualWorkerId virtual_worker;
    int first_layer = 0, end_layer = 0;
  };

  // pushed: the type of the parameters' numbers. Nothing arrives from a stage without parameters on
  // the shard. All outlive this.
  PushArrivals(const From& from, const WaveRules& rules, const ShardMap& map, ShardId shard,
               RankService& service, SharedBlocks& blocks, ElementType pushed);

  // Whether one more piece has arrived; posts the receives of those to come.
  bool take();
  Wave next_wave() const { return next_wave_; }  // whose push arrives: all of those before have

  // The oldest that is here, if it is of this wave; it may be arriving.
  const Push* of(Wave wave) const;
  // Of the oldest: it has been added, so its sender may use the memory again.
  void added();

 private:
  struct Receive {
    Operation operation;
    std::int64_t count = 0;  // numbers
  };
  bool in_place() const { return blocks_.reaches(from_.rank); }
  void post();
  Push& begin(std::int64_t floats);
  std::span<std::byte> memory_of_piece(Push& push, std::int64_t first);
  bool take_shown();
  Numbers numbers_at(const float* memory) const {
    return {reinterpret_cast<const std::byte*>(memory), pushed_};
  }

  From from_;
  const WaveRules& rules_;
  ShardId shard_;
  RankService& service_;
  SharedBlocks& blocks_;
  ElementType pushed_;
  std::int64_t parameters_, statistics_;  // numbers on this shard
  std::int64_t parameter_floats_;         // as many as the parameters' bytes take
  PushPieces pieces_;
  std::vector<FlatRange> ranges_;  // of a push's parameters, wherever they lie
  Wave next_wave_;
  std::deque<Push> pushes_;  // oldest first; the last one may be arriving
  std::deque<Receive> receives_;
  std::size_t posted_ = 0;  // pieces of the push that arrives
};

}  // namespace hetpipe
