// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/image.h"
#include "tests/fuzz/fuzz.h"

// Five bytes: the part's place and size as shares of what is possible, and the least size. The
// others: a JPEG or PNG file.
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using hetpipe::fuzz::require;
  constexpr std::size_t kPlace = 5;
  constexpr std::int64_t kMostPixels = 1 << 20;  // larger ones take longer, and no other way
  if (size < kPlace) return 0;
  const hetpipe::StoredImage stored =
      std::string(reinterpret_cast<const char*>(data) + kPlace, size - kPlace);
  try {
    const hetpipe::ImageSize whole = hetpipe::size_of(stored, "x");
    if (std::int64_t{whole.height} * whole.width > kMostPixels) return 0;
    const int height = 1 + data[0] * (whole.height - 1) / 255;
    const int width = 1 + data[1] * (whole.width - 1) / 255;
    const hetpipe::Box box{static_cast<double>(data[2] * (whole.height - height) / 255),
                           static_cast<double>(data[3] * (whole.width - width) / 255),
                           static_cast<double>(height), static_cast<double>(width)};
    const hetpipe::ImageSize least{1 + data[4], 1 + data[4]};
    const hetpipe::ImagePart part = hetpipe::part_of(stored, "x", box, least);
    const hetpipe::Image& image = part.image;
    require(image.channels == 1 || image.channels == 3, "neither grey nor RGB");
    require(image.pixels.size() == static_cast<std::size_t>(image.height) *
                                       static_cast<std::size_t>(image.width * image.channels),
            "sides and pixels disagree");
    const double slack = 1e-6;
    require(part.box.top >= -slack && part.box.left >= -slack &&
                part.box.top + part.box.height <= image.height + slack &&
                part.box.left + part.box.width <= image.width + slack,
            "the part is not in the image");
    const hetpipe::Image out = hetpipe::resampled(image, part.box, 3, 4);
    require(out.pixels.size() == static_cast<std::size_t>(3 * 4 * image.channels), "another size");
  } catch (const hetpipe::UserError&) {
  }
  return 0;
}
