// SPDX-License-Identifier: Apache-2.0
#include "launch/train/measured_model.h"

#include "base/text.h"
#include "launch/profile/measure.h"

namespace hetpipe {
namespace {

constexpr double kBudgetSeconds = 20;  // for batches that are chosen

}  // namespace

MeasuredModel measure_model(const TrainOptions& options, const Model& model,
                            const ModelMeasurer& by) {
  const PrecisionChoice choice = options.planning.precision
                                     ? precision_choice_from(*options.planning.precision)
                                     : PrecisionChoice{};
  const ProfiledDevice device = open_profiled_device(
      {.device = by.on_cpu && options.device == "auto" ? "cpu" : options.device,
       .threads = options.threads,
       .gpu = by.gpu,
       .precision = choice.of(by.kind)});
  MeasuredProfile measured = measured_profile(
      model, device,
      {.batches = by.batches, .threads = options.threads, .budget_seconds = kBudgetSeconds});
  const std::string kind = by.kind.empty() ? device.kind : by.kind;
  for (Measurement& of : measured.profile.measurements) of.device = kind;
  return {std::move(measured.profile),
          format("%s on %s: %s, %s", model.name().c_str(), kind.c_str(), measured.remark.c_str(),
                 measured.found ? "measured earlier" : "measured now")};
}

}  // namespace hetpipe
