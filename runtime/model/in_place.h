// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/model/model.h"

namespace hetpipe {

// Whether `layer` may write its output over its first input in a stage that begins with layer
// `first`: its kernel can, the input was made in the same stage, and nobody else reads it, neither
// another layer nor a backward. Memory that is not touched twice is what such layers' time goes to.
bool forward_in_place(const Model& model, int layer, int first);

}  // namespace hetpipe
