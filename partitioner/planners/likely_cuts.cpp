// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/likely_cuts.h"

#include <algorithm>

#include "base/index.h"

namespace hetpipe {

std::vector<int> likely_cuts(const std::vector<double>& seconds,
                             const std::vector<double>& crossing, int most) {
  const int layers = static_cast<int>(seconds.size());
  std::vector<int> cuts{0};
  double total = 0, sum = 0;
  for (const double s : seconds) total += s;
  int best = -1, run = 0;
  for (int l = 0; l + 1 < layers; ++l) {
    sum += at(seconds, l);
    const int here = total > 0 ? std::min(most - 1, static_cast<int>(sum / total * most)) : 0;
    if (here != run && best >= 0) {
      cuts.push_back(best);
      best = -1;
    }
    run = here;
    if (best < 0 || at(crossing, l + 1) < at(crossing, best)) best = l + 1;
  }
  if (best >= 0) cuts.push_back(best);
  cuts.push_back(layers);
  return cuts;
}

}  // namespace hetpipe
