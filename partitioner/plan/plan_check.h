// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "partitioner/plan/plan.h"

namespace hetpipe {

// The lines of a plan's parts in its file, for messages. Without stage lines only the file is
// named.
struct PlanPlaces {
  std::string file;
  std::vector<std::vector<int>> stages;  // [virtual worker][stage]; or empty
  int server = 0;

  std::string stage(std::size_t vw, std::size_t k) const;
  std::string of_server() const;
};

// The checks of check_plan (plan.h), collected. layer_count 0: not known.
void check_plan(const Plan& plan, const PlanPlaces& places, const Cluster* cluster, int layer_count,
                Problems& problems);

}  // namespace hetpipe
