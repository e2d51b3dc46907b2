// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/data/dataset.h"
#include "runtime/data/sampler.h"

// mixup and CutMix again, from their definition in docs/data.md: what the serial programs train on.
namespace hetpipe {

struct SerialMixed {
  std::int32_t other = 0;  // label
  float share = 1;         // of the sample's own label
};

// The element at a position, whose numbers are `image` as the network would receive it alone: mixes
// them.
SerialMixed mix_serially(const Dataset& data, const Sampler& sampler, std::int64_t position,
                         std::span<float> image);

// Labels as a loss of mixed samples reads them: all labels, then all others, then all shares.
std::vector<std::int32_t> label_rows(const std::vector<std::int32_t>& labels,
                                     const std::vector<SerialMixed>& mixed);

}  // namespace hetpipe
