// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/layer.h"

// Where a Resize layer reads: PyTorch's rules (aten/src/ATen/native/UpSample.h,
// cpu/UpSampleKernel.cpp) in its arithmetic, which is float.
namespace hetpipe {

// Place i of the output is low_weight * x[low] + high_weight * x[high].
struct ResizePlace {
  std::int64_t low = 0, high = 0;
  float low_weight = 1, high_weight = 0;
};

// Of all places along one axis.
inline std::vector<ResizePlace> resize_places(Resize::Kind kind, std::int64_t input,
                                              std::int64_t output, double step) {
  std::vector<ResizePlace> places(static_cast<std::size_t>(output));
  const float by = static_cast<float>(step);
  for (std::int64_t i = 0; i < output; ++i) {
    ResizePlace& place = places[static_cast<std::size_t>(i)];
    if (input == output) {  // whatever the step
      place.low = place.high = i;
      continue;
    }
    const float at = static_cast<float>(i);
    if (kind == Resize::Kind::nearest) {
      const auto from =
          output == 2 * input ? i / 2 : static_cast<std::int64_t>(std::floor(at * by));
      place.low = place.high = std::min(from, input - 1);
      continue;
    }
    const float from =
        kind == Resize::Kind::bilinear_aligned ? by * at : std::max(0.0f, by * (at + 0.5f) - 0.5f);
    place.low = std::min(static_cast<std::int64_t>(from), input - 1);
    place.high = std::min(place.low + 1, input - 1);
    place.high_weight = std::clamp(from - static_cast<float>(place.low), 0.0f, 1.0f);
    place.low_weight = 1.0f - place.high_weight;
  }
  return places;
}

}  // namespace hetpipe
