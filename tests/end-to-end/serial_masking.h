// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/sample.h"

// Masked language modelling again, from its definition in docs/training.md: what the serial
// programs hand to a model that fills in tokens.
namespace hetpipe {

// Of one sample: tokens as read -> as the model sees them; labels, the tokens themselves -> -1
// where nothing is predicted.
void mask_serially(std::uint64_t seed, const SampleKey& key, int mask_token,
                   std::span<float> tokens, std::span<std::int32_t> labels);

}  // namespace hetpipe
