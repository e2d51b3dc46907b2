// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/element.h"

// Where a place of a resized axis reads: PyTorch's rules (aten/src/ATen/native/UpSample.h,
// cpu/UpSampleKernel.cpp) in its arithmetic, which is float. Usable in device code.
namespace hetpipe {

// A place of the output is low_weight * x[low] + high_weight * x[high].
struct ResizePlace {
  std::int64_t low = 0, high = 0;
  float low_weight = 1, high_weight = 0;
};

// One axis.
struct ResizeAxis {
  bool nearest = true, aligned = false;
  std::int64_t input = 1, output = 1;
  float step = 1;

  HETPIPE_HOST_DEVICE ResizePlace place(std::int64_t i) const {
    ResizePlace place;
    if (input == output) {  // whatever the step
      place.low = place.high = i;
      return place;
    }
    const float at = static_cast<float>(i);
    if (nearest) {
      const std::int64_t from =
          output == 2 * input ? i / 2 : static_cast<std::int64_t>(std::floor(at * step));
      place.low = place.high = from < input - 1 ? from : input - 1;
      return place;
    }
    float from = aligned ? step * at : step * (at + 0.5f) - 0.5f;
    from = from > 0 ? from : 0.0f;
    const auto whole = static_cast<std::int64_t>(from);
    place.low = whole < input - 1 ? whole : input - 1;
    place.high = place.low < input - 1 ? place.low + 1 : place.low;
    const float part = from - static_cast<float>(place.low);
    place.high_weight = part < 1 ? part : 1.0f;
    place.low_weight = 1.0f - place.high_weight;
    return place;
  }
};

}  // namespace hetpipe
