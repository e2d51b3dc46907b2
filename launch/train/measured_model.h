// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"
#include "launch/train/options.h"
#include "partitioner/profile/profile.h"
#include "runtime/model/model.h"

namespace hetpipe {

// The device on which a rank measures a model without a profile.
struct ModelMeasurer {
  std::string kind{};          // the device's name in the profile; empty: the device's own type
  bool on_cpu = false;         // unless --device says something else
  int gpu = 0;                 // as CUDA counts
  std::vector<int> batches{};  // samples per call; empty: as many as time allows
};
constexpr auto fields_of(Type<ModelMeasurer>) {
  return fields<&ModelMeasurer::kind, &ModelMeasurer::on_cpu, &ModelMeasurer::gpu,
                &ModelMeasurer::batches>;
}

struct MeasuredModel {
  Profile profile;
  std::string note;  // "lenet on cpu: batches of 32 samples, measured earlier"
};
constexpr auto fields_of(Type<MeasuredModel>) {
  return fields<&MeasuredModel::profile, &MeasuredModel::note>;
}

// As measured_profile(), which keeps it.
MeasuredModel measure_model(const TrainOptions& options, const Model& model,
                            const ModelMeasurer& by);

}  // namespace hetpipe
