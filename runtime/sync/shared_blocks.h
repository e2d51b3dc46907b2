// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/shared_memory.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/sync/messages.h"

namespace hetpipe {

// By rank, whether it and this one can read each other's memory: tried by all ranks together, at
// the start. `machines`: by rank; only ranks with the same text try.
std::vector<bool> ranks_in_reach(Transport& transport, const std::vector<std::string>& machines);

// Arrays of floats of this rank, kept for reuse: fresh pages cost as much as the transfer that
// fills them. Ranks in reach read them where they lie, and this one theirs.
class SharedBlocks {
 public:
  // reach[r]: for ranks r that both ends of a message know to read each other's memory; none where
  // it is empty. The service outlives this.
  explicit SharedBlocks(RankService& service, std::vector<bool> reach = {});

  bool reaches(Rank rank) const {
    return !reach_.empty() && reach_[static_cast<std::size_t>(rank.value)];
  }
  bool reaches_any() const;

  // An array whose values are whatever was there before; free again when nobody holds it. May
  // outlive this. SystemError where the machine has no memory for it.
  std::shared_ptr<float> take(std::int64_t count);

  // The number under which the rank, which is in reach, finds an array from take(); it is told of
  // the array the first time.
  std::int32_t show(Rank to, const float* memory);
  bool owns(const float* memory) const;  // from take(), where others may read it

  // An array that the rank has shown; null where its message is still on its way.
  const float* find(Rank of, std::int32_t number) const;

 private:
  struct Arrays;  // of this rank
  RankService& service_;
  std::vector<bool> reach_;
  std::shared_ptr<Arrays> own_;
  std::set<std::pair<Rank, std::int32_t>> shown_;
  std::map<std::pair<Rank, std::int32_t>, SharedMemory> theirs_;
};

}  // namespace hetpipe
