// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "runtime/model/model.h"

namespace hetpipe {

// Initial values of a built-in model from a state_dict, whose names and layouts are those that
// `hetpipe checkpoint export` writes (state_names.h; of deep ResNets, VGG and Inception-v3:
// torchvision's), or GPT-2's of transformers (transformers_names.h). A tensor that is another one
// only in its number of classes is left as drawn: the head for other classes. UserError for tensors
// of other shapes; and, where the file is to be whole, for those that are missing or that the model
// does not have.
std::shared_ptr<const StateValues> initial_state(const Model& model, const std::string& file,
                                                 bool whole);

// Whether two shapes differ in nothing but that one has other classes than `classes`.
bool differs_in_classes(const std::vector<std::int64_t>& file,
                        const std::vector<std::int64_t>& model, int classes);
// "not taken from FILE, which has them for other classes: fc.weight, fc.bias".
std::string not_taken(const std::string& file, const std::vector<std::string>& tensors);

}  // namespace hetpipe
