// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/sample_split.h"

#include <algorithm>
#include <numeric>

namespace hetpipe {

SampleSpan common(SampleSpan a, SampleSpan b) {
  const std::int64_t first = std::max(a.first, b.first);
  return {first, std::max(first, std::min(a.end, b.end))};
}

SampleSpan SampleSplit::micro(std::int64_t samples, int micro) const {
  const std::int64_t each = samples / micro_batches_;
  const std::int64_t longer = samples % micro_batches_;
  const auto first = [&](std::int64_t m) { return each * m + std::min(m, longer); };
  return {first(micro), first(micro + 1)};
}

SampleSpan SampleSplit::share(SampleSpan of, int stage, int replica) const {
  const std::vector<int>& shares = shares_[static_cast<std::size_t>(stage)];
  const std::int64_t all = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  const std::int64_t before =
      std::accumulate(shares.begin(), shares.begin() + replica, std::int64_t{0});
  const std::int64_t behind = before + shares[static_cast<std::size_t>(replica)];
  return {of.first + of.count() * before / all, of.first + of.count() * behind / all};
}

SampleSpan SampleSplit::of(std::int64_t samples, int micro_batch, int stage, int replica) const {
  return share(micro(samples, micro_batch), stage, replica);
}

SampleSpan SampleSplit::whole(std::int64_t samples, int stage, int replica) const {
  return share({0, samples}, stage, replica);
}

}  // namespace hetpipe
