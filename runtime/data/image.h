// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

// One image in memory, and how files become one. The door to libjpeg and libpng is behind
// decode_image (jpeg.cpp, png.cpp).
namespace hetpipe {

struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;                  // 1 (grey) or 3 (red, green, blue)
  std::vector<std::uint8_t> pixels;  // (H, W, C), row-major
};

// Larger sides or more pixels than these are no image to train on.
inline constexpr int kLargestImageSide = 1 << 16;
inline constexpr std::int64_t kMostImagePixels = std::int64_t{1} << 28;

// JPEG or PNG, distinguished by their first bytes. Grey stays grey; palettes become RGB; 16 bits
// become 8 (rounded); 1, 2 and 4 bits of grey are spread to 8; an alpha channel or transparent
// colour is dropped, as torchvision's loader drops it; CMYK becomes RGB. A JPEG's orientation mark
// is ignored. `name` is for the message: UserError when the bytes are cut short, damaged,
// neither format, or too large.
Image decode_image(std::string_view bytes, const std::string& name);

// As a PNG file.
std::string encode_png(const Image& image);

// A file of its own. UserError as above, or when it cannot be read.
Image read_image(const std::filesystem::path& path);

// An image as it is stored: the bytes of a JPEG or PNG file, or what is decoded already.
using StoredImage = std::variant<std::string, Image>;
Image decoded(StoredImage image, const std::string& name);
struct ImageSize {
  int height = 0;
  int width = 0;
  bool operator==(const ImageSize&) const = default;
};
ImageSize size_of(const StoredImage& image, const std::string& name);  // from the header alone

// A part of an image; sides in pixels, which need not be whole.
struct Box {
  double top = 0, left = 0, height = 0, width = 0;
};
// What holds such a part, at a scale at which the part has at least `least` pixels each way where
// it has so many at all; `box` is the part in it. Of a JPEG only the blocks around the part are
// computed, and at 1/2, 1/4 or 1/8 where that is enough (libjpeg-turbo's scaled DCT).
struct ImagePart {
  Image image;
  Box box;
};
ImagePart part_of(const StoredImage& stored, const std::string& name, Box box, ImageSize least);

// The part of an image as height x width pixels: a triangle filter as wide as what an output pixel
// covers, or as a pixel where it grows, horizontally, then vertically, rounded each time. The bits
// of Pillow's Image.resize(BILINEAR, box), which torchvision's Resize and RandomResizedCrop call.
Image resampled(const Image& image, Box box, int height, int width);

// To 1 or 3 channels: grey is repeated; colour becomes 0.299 red + 0.587 green + 0.114 blue
// (ITU-R BT.601), rounded.
Image with_channels(Image image, int channels);

// Each side by itself: where it grows, linear interpolation between pixel centres (the border
// repeated); where it shrinks, the mean of the interval that an output pixel covers, pixels at its
// ends by their covered share. Rounded once, to the nearest.
Image resized(const Image& image, int height, int width);

// The largest part in the middle that has the sides' ratio height : width.
Image center_cropped(const Image& image, int height, int width);

}  // namespace hetpipe
