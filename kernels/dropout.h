// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "base/random.h"
#include "base/sample.h"
#include "kernels/elementwise.h"

// What the devices' dropouts have in common.
namespace hetpipe {

// The key of one sample's draws: the same in any batch, place, cut and recomputation.
inline std::uint64_t dropout_key(std::uint64_t layer_key, const SampleKey& sample) {
  return random_key({layer_key, static_cast<std::uint64_t>(sample.epoch),
                     static_cast<std::uint64_t>(sample.index)});
}

// What alpha dropout does to an element: kept * scale + shift, dropped elements become `dropped`
// (Klambauer et al. 2017, section 3: what is dropped has been set to SELU's floor, then the affine
// map).
struct AlphaDropoutMap {
  double scale, shift, dropped;

  explicit AlphaDropoutMap(double rate)
      : scale(1 / std::sqrt((1 - rate) * (1 + rate * Selu::kFloor * Selu::kFloor))),
        shift(-scale * rate * Selu::kFloor),
        dropped(scale * Selu::kFloor + shift) {}
};

}  // namespace hetpipe
