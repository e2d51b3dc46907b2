// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/model/model.h"

namespace hetpipe {

// "mlp", "lenet", "lenet-bn", "resnet-8", "resnet-14", "resnet-20" (for small images); "resnet-18",
// "resnet-50", "resnet-101", "resnet-152", "vgg-16", "vgg-19", "inception-v3", "inception-v4",
// "amoebanet", "snn-mlp" (vision/vision.h); and those for text (zoo_text.h).
std::vector<std::string> model_names();

// A built-in model for samples (H, W, C), or (T) tokens. Every operation is a layer of its own,
// so a cut may fall between any two; the last layer is the loss, named "loss". UserError for an
// unknown name (with the nearest known one) or samples that do not suit it.
Model make_model(const std::string& name, const Shape& sample, int classes);

}  // namespace hetpipe
