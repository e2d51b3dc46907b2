// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/data/image.h"

namespace hetpipe {

// Adds to the hue, of which 256 steps are once around, of an RGB image's pixels; grey images stay.
// The bits of Pillow's conversions to HSV of bytes and back, between which torchvision's adjust_hue
// adds int(factor * 255).
void turn_hue(Image& image, std::uint8_t by);

}  // namespace hetpipe
