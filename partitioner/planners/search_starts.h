// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include "partitioner/planners/search_run.h"

namespace hetpipe {

// How many plans of one row, and of these with one number of virtual workers, steps start from.
struct StartLimits {
  std::size_t of_space = 4;
  std::size_t of_number = 1;
};

// Which of the plans that were found steps start from. Where late updates count, the best number of
// virtual workers may be another one once its plans are improved.
class Starts {
 public:
  explicit Starts(const StartLimits& limits) : limits_(limits) {}
  // Asked best first. `best`: the worth of the best plan so far.
  bool take(const ScoredPlan& plan, double best);
  std::size_t taken() const { return taken_; }

 private:
  StartLimits limits_;
  std::size_t taken_ = 0;
  std::map<std::size_t, std::size_t> of_space_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> of_number_;  // space, number
};

}  // namespace hetpipe
