// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace hetpipe {

// The largest of any run of numbers.
class RunMaxima {
 public:
  RunMaxima() = default;  // of none
  explicit RunMaxima(std::vector<std::int64_t> values);
  std::int64_t of(int first, int end) const {
    const std::size_t level = std::bit_width(static_cast<unsigned>(end - first)) - 1;
    const std::int64_t* const runs = &runs_[level * count_];
    return std::max(runs[first], runs[static_cast<std::size_t>(end) - (std::size_t{1} << level)]);
  }

 private:
  std::size_t count_ = 0;
  std::vector<std::int64_t> runs_;  // [j][l]: of l ... l + 2^j - 1
};

}  // namespace hetpipe
