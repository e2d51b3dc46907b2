// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/command/loss_options.h"
#include "launch/command/options.h"
#include "launch/command/sample_options.h"
#include "runtime/model/model.h"

// A model as options describe it, for commands that train nothing: by a name or a folder, and by
// the data or the shape of the samples that it is for.
namespace hetpipe {

struct DescribedModel {
  std::optional<std::string> name;  // --model
  std::optional<std::string> data;
  std::optional<std::string> sample;
  std::optional<int> classes;
  LossOptions loss = {};
  SampleOptions samples = {};
};

// The rows --sample and --classes.
std::vector<Option> sample_shape_options(std::optional<std::string>& sample,
                                         std::optional<int>& classes);

// What is wrong or missing.
void check_described_model(const DescribedModel& model, Problems& problems);

Model make_described_model(const DescribedModel& described);

}  // namespace hetpipe
