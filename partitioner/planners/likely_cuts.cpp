// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/likely_cuts.h"

#include <algorithm>

namespace hetpipe {

std::vector<int> likely_cuts(std::span<const double> seconds, std::span<const double> crossing,
                             int most) {
  const std::size_t layers = seconds.size() - 1;
  const double total = seconds.back();
  std::vector<int> cuts{0};
  std::size_t best = 0;  // of the run; 0: none
  int run = 0;
  for (std::size_t l = 1; l < layers; ++l) {
    const int here =
        total > 0 ? std::min(most - 1, static_cast<int>(seconds[l] / total * most)) : 0;
    if (here != run && best > 0) {
      cuts.push_back(static_cast<int>(best));
      best = 0;
    }
    run = here;
    if (best == 0 || crossing[l] < crossing[best]) best = l;
  }
  if (best > 0) cuts.push_back(static_cast<int>(best));
  cuts.push_back(static_cast<int>(layers));
  return cuts;
}

std::vector<double> crossing_bytes(std::span<const std::vector<int>> producers,
                                   std::span<const std::int64_t> output_bytes) {
  std::vector<double> bytes(producers.size(), 0.0);
  for (std::size_t l = 0; l < producers.size(); ++l) {
    for (const int producer : producers[l]) {
      bytes[l] += static_cast<double>(output_bytes[static_cast<std::size_t>(producer)]);
    }
  }
  return bytes;
}

}  // namespace hetpipe
