// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/data/image.h"

// Images that a test encodes itself, through the libraries.
namespace hetpipe {

// A picture with all values in it, the same for the same key.
Image made_image(int height, int width, int channels, int key = 0);
Image flat_image(int height, int width, const std::vector<std::uint8_t>& color);

// quality 100. A picture of 4 channels is CMYK, which libjpeg marks as Adobe's where `adobe`.
std::string jpeg_of(const Image& image, bool adobe = false);

// kind: what libpng calls the colour type. `rows` as libpng takes them: 16 bits big-endian, fewer
// than 8 packed.
enum class PngKind { grey, grey_alpha, rgb, rgb_alpha, palette };
struct PngParts {
  int height = 0;
  int width = 0;
  PngKind kind = PngKind::rgb;
  int bits = 8;
  bool interlaced = false;
  std::vector<std::uint8_t> rows;
  std::vector<std::uint8_t> palette;  // three bytes each
};
std::string png_of(const PngParts& parts);
std::string png_of(const Image& image);  // grey or RGB, 8 bits

}  // namespace hetpipe
