// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "partitioner/plan.h"
#include "partitioner/profile.h"

// What a stage needs of its device's memory, line by line.
namespace hetpipe {

struct LedgerLine {
  std::string name;  // "weights", "gradients", ...
  std::int64_t bytes = 0;
};

struct MemoryLedger {
  std::vector<LedgerLine> lines;
  std::int64_t total() const;
};

// Floats of optimizer state per parameter: sgd 0, sgd-momentum 1, adam 2.
int optimizer_slots(const std::string& optimizer);

}  // namespace hetpipe
