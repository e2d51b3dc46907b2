// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace hetpipe {

// Notices a training that diverges, from the mean loss of each wave: one that is a hundred times
// the smallest so far. A training that has learnt its samples by heart may lose less than
// measurable for a while, so that the smallest counts as no less than a tenth of the first.
class LossWatch {
 public:
  // A remark once for each time that the loss grows so much; again only after it has come back to a
  // tenth of that.
  std::optional<std::string> next(std::int64_t wave, double loss);

 private:
  std::optional<double> first_;
  double least_ = std::numeric_limits<double>::infinity();
  std::int64_t least_wave_ = 0;
  bool said_ = false;
};

}  // namespace hetpipe
