// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/precision.h"
#include "partitioner/profile/roofline.h"
#include "runtime/model/model.h"

// What a training step asks of a card that is not there: launches, counted on the CUDA double,
// whose cards count and check all work and do none; flops from the model's layers; bytes that must
// be moved at least.
namespace hetpipe::bench {

// As tests/cuda/double/ describes one.
struct BudgetCard {
  int major = 0, minor = 0;
  double memory = 0;  // bytes
};

// Layers that a device computes in one go, and those of other blocks that are alike.
struct BudgetRow {
  std::string name;  // "h*.attn", of the first and, where there are several, the last layer
  int times = 0;
  Work forward{0, 0, 0}, backward{0, 0, 0};  // all of them together
};

struct Budget {
  int batch = 0;
  std::size_t peak = 0;  // bytes of the device's memory
  std::vector<BudgetRow> rows;
  BudgetRow update;  // all weights at once; its work is `forward`
};

// `module`: the double's, which is in use. Null where the step does not fit into the card's memory.
// SystemError where the module is no double.
std::optional<Budget> count_step(const std::string& module, const BudgetCard& card,
                                 const Model& model, int batch, Precision precision, bool adam);

}  // namespace hetpipe::bench
