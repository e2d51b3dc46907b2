// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/element.h"
#include "runtime/model/model.h"

// The batch sizes that `hetpipe profile` measures by default.
namespace hetpipe {

// Bytes needed to measure a model: parameters with their gradients, velocities and changes; of
// each sample every layer's output, its gradient and what it keeps.
struct MeasuringMemory {
  double fixed = 0;
  double per_sample = 0;
  double of(int samples) const { return fixed + per_sample * samples; }
};
MeasuringMemory measuring_memory(const Model& model, ElementType activations);

// 1, 2, 8, 32, 128, 512: a layer's time at any batch lies on the line through the two measurements
// around it, and a factor of four leaves little room for a bend; 32 is what plans use by
// default. They are measured in this order as long as the next fits into `memory` bytes and, at
// as many seconds per sample as the last, into what is left of `budget_seconds`; the first is
// measured whatever it takes. `measure` returns how long a batch took; nothing: the device had no
// room for it after all.
struct BatchChoice {
  std::vector<int> batches;
  std::string why_no_more;  // "128 samples need 12.4 GB of 8.0 GB"
};
BatchChoice measure_batches(const MeasuringMemory& needed, double memory, double budget_seconds,
                            const std::function<std::optional<double>(int batch)>& measure);

}  // namespace hetpipe
