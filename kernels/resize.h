// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/layer.h"
#include "kernels/resize_place.h"

namespace hetpipe {

inline ResizeAxis resize_axis(Resize::Kind kind, std::int64_t input, std::int64_t output,
                              double step) {
  return {kind == Resize::Kind::nearest, kind == Resize::Kind::bilinear_aligned, input, output,
          static_cast<float>(step)};
}

// Where a Resize layer reads, of all places along one axis of the output.
inline std::vector<ResizePlace> resize_places(Resize::Kind kind, std::int64_t input,
                                              std::int64_t output, double step) {
  const ResizeAxis axis = resize_axis(kind, input, output, step);
  std::vector<ResizePlace> places;
  for (std::int64_t i = 0; i < output; ++i) places.push_back(axis.place(i));
  return places;
}

}  // namespace hetpipe
