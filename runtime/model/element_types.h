// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/element.h"
#include "runtime/model/model.h"

// Element types of a model's tensors on a device whose activations are of one type.
namespace hetpipe {

// Losses are fp32 everywhere.
inline ElementType output_type(const Model& model, int layer, ElementType activations) {
  return layer + 1 == model.layer_count() ? ElementType::fp32 : activations;
}

// Tokens are fp32 everywhere; other samples are activations.
inline ElementType sample_type(const Model& model, ElementType activations) {
  return model.vocabulary() > 0 ? ElementType::fp32 : activations;
}

}  // namespace hetpipe
