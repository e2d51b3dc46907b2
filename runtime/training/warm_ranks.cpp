// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/warm_ranks.h"

#include <utility>

#include "runtime/training/messages.h"

namespace hetpipe {

WarmRanks::WarmRanks(std::map<Rank, std::string> names, RankService& service)
    : names_(std::move(names)), service_(service) {
  for (const auto& [rank, name] : names_) cold_.insert(rank);
  service.on<RankWarm>([this](Rank from, const RankWarm&) {
    const bool expected = cold_.erase(from) == 1;
    ensure(expected, "a rank has warmed up that has no links");
  });
}

void WarmRanks::wait_for_all() {
  for (const auto& [rank, name] : names_) service_.send(rank, RankWarm{});
  service_.wait_for_others(
      [this] { return cold_.empty(); },
      [this] {
        const Rank first = *cold_.begin();
        return Awaited(names_.at(first) +
                           " to load its kernels and try a step, before links of NCCL are opened",
                       first);
      });
}

}  // namespace hetpipe
