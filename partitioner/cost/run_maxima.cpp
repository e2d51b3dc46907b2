// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/run_maxima.h"

namespace hetpipe {

RunMaxima::RunMaxima(std::vector<std::int64_t> values)
    : count_(values.size()), runs_(std::move(values)) {
  runs_.reserve(count_ * std::max<std::size_t>(1, std::bit_width(count_)));
  for (std::size_t span = 1; 2 * span <= count_; span *= 2) {
    const std::size_t below = runs_.size() - count_;
    for (std::size_t l = 0; l < count_; ++l) {
      const std::size_t other = std::min(l + span, count_ - 1);
      runs_.push_back(std::max(runs_[below + l], runs_[below + other]));
    }
  }
}

}  // namespace hetpipe
