// SPDX-License-Identifier: Apache-2.0
#include "launch/profile/batches.h"

#include <array>

#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::array kBatches{1, 2, 8, 32, 128, 512};

}  // namespace

MeasuringMemory measuring_memory(const Model& model, ElementType activations) {
  const auto each = static_cast<double>(bytes_of(activations));
  MeasuringMemory memory;
  // Weights, gradients, velocity and delta are fp32 everywhere.
  memory.fixed = 4.0 * static_cast<double>(model.parameter_count()) * sizeof(float);
  memory.per_sample = static_cast<double>(model.batch_shape(1).elements()) * sizeof(float);
  for (int l = 0; l < model.layer_count(); ++l) {
    const LayerShapes shapes = model.shapes(l, 1);
    memory.per_sample += 2.0 * static_cast<double>(shapes.output.elements()) * each +
                         static_cast<double>(shapes.stash_bytes);
  }
  return memory;
}

BatchChoice measure_batches(const MeasuringMemory& needed, double memory, double budget_seconds,
                            const std::function<std::optional<double>(int batch)>& measure) {
  BatchChoice choice;
  double spent = 0;
  double per_sample = 0;  // of the batch before, and so no less than that of the next
  for (const int batch : kBatches) {
    if (needed.of(batch) > memory) {
      choice.why_no_more =
          format("%d samples need %s of %s", batch, format_bytes(needed.of(batch)).c_str(),
                 format_bytes(memory).c_str());
      break;
    }
    const double over = spent + per_sample * batch - budget_seconds;
    if (!choice.batches.empty() && over > 0) {
      choice.why_no_more =
          format("%d samples might take %s more than the %s allowed for all", batch,
                 format_seconds(over).c_str(), format_seconds(budget_seconds).c_str());
      break;
    }
    const std::optional<double> seconds = measure(batch);
    if (!seconds) {
      choice.why_no_more = format("the device does not have enough memory for %d samples", batch);
      break;
    }
    choice.batches.push_back(batch);
    per_sample = *seconds / batch;
    spent += *seconds;
  }
  if (choice.why_no_more.empty()) {
    choice.why_no_more = format("more than %d are rarely used", kBatches.back());
  }
  return choice;
}

}  // namespace hetpipe
