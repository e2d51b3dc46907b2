// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"
#include "runtime/model/loss.h"
#include "runtime/model/model.h"

namespace hetpipe {

// "mlp", "lenet", "lenet-bn", "resnet-8", "resnet-14", "resnet-20" (for small images); "resnet-18",
// "resnet-50", "resnet-101", "resnet-152", "vgg-16", "vgg-19", "inception-v3", "inception-v4",
// "amoebanet", "snn-mlp" (vision/vision.h); and those for text (zoo_text.h).
std::vector<std::string> model_names();

// Which model a training is of.
struct ModelChoice {
  std::string name;  // of the zoo, or a folder with an exported one (docs/own-model.md)
  // File with its initial weights; empty: those it was exported with, or drawn.
  std::string init = {};
  bool whole_init = true;  // the file holds all of them
  LossChoice loss = {};
  std::vector<std::string> freeze = {};  // patterns of layers that are not trained
};
constexpr auto fields_of(Type<ModelChoice>) {
  return fields<&ModelChoice::name, &ModelChoice::init, &ModelChoice::whole_init,
                &ModelChoice::loss, &ModelChoice::freeze>;
}

// A built-in model for samples (H, W, C), or (T) tokens. Every operation is a layer of its own,
// so a cut may fall between any two; the last layer is the loss, named "loss". UserError for an
// unknown name (with the nearest known one) or samples that do not suit it. An exported one is as
// its folder says, for samples of the shape that it was exported for.
Model make_model(const ModelChoice& choice, const Shape& sample, int classes);
inline Model make_model(const std::string& name, const Shape& sample, int classes) {
  return make_model(ModelChoice{name}, sample, classes);
}
// The model's own name: of an exported one, what it was exported as.
std::string model_name(const ModelChoice& choice);

}  // namespace hetpipe
