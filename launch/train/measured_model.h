// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

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

struct MeasuredModel {
  Profile profile;
  std::string note;  // "lenet on cpu: batches of 32 samples, measured earlier"
};

// As measured_profile(), which keeps it.
MeasuredModel measure_model(const TrainOptions& options, const Model& model,
                            const ModelMeasurer& by);

}  // namespace hetpipe
