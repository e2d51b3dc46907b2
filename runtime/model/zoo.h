// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/model/model.h"

namespace hetpipe {

std::vector<std::string> model_names();

// A model of the zoo for samples (H, W, C). UserError for an unknown name (the nearest known one) or samples that
// are too small for it.
Model make_model(const std::string& name, const Shape& sample, int classes);

}  // namespace hetpipe
