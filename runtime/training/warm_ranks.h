// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/ids.h"
#include "runtime/pipeline/rank_service.h"

namespace hetpipe {

// Ranks whose devices will hold kernels that wait for other ranks' (NCCL's). None of these may
// start while some rank still does for the first time what waits for all that its device does
// (loading code, measuring plans, page-locking memory): two such ranks could wait for one another
// for ever. So each says when it has done all of that, and opens its links when every one has said
// so.
class WarmRanks {
 public:
  // Their names are for who waits in vain: "rank 3 (NVIDIA H200, bf16)".
  WarmRanks(std::map<Rank, std::string> names, RankService& service);

  bool has(Rank rank) const { return names_.contains(rank); }
  // Of a rank that has warmed up.
  void wait_for_all();

 private:
  std::map<Rank, std::string> names_;
  std::set<Rank> cold_;
  RankService& service_;
};

}  // namespace hetpipe
