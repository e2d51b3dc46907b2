// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/run_maxima.h"

namespace hetpipe {

RunMaxima::RunMaxima(std::vector<std::int64_t> values)
    : count_(values.size()), runs_(std::move(values)) {
  runs_.resize(count_ * std::max<std::size_t>(1, std::bit_width(count_)));
  std::int64_t* below = runs_.data();
  for (std::size_t span = 1; 2 * span <= count_; span *= 2) {
    std::int64_t* const runs = below + count_;
    for (std::size_t l = 0; l + span < count_; ++l) runs[l] = std::max(below[l], below[l + span]);
    below = runs;
  }
}

}  // namespace hetpipe
