// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/image.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/data/image_codecs.h"

namespace hetpipe {
namespace {

// What one output pixel along a side takes of the input: weights that sum to 1, from `first` on.
struct Share {
  std::int64_t first = 0;
  std::vector<double> weights;
};

Share interpolated(std::int64_t i, std::int64_t from, std::int64_t to) {
  const double center =
      (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
  const double inside = std::clamp(center, 0.0, static_cast<double>(from - 1));
  const auto first =
      std::min(static_cast<std::int64_t>(inside), std::max<std::int64_t>(0, from - 2));
  const double second = inside - static_cast<double>(first);
  if (from == 1) return {0, {1.0}};
  return {first, {1 - second, second}};
}

// Output pixel i covers [i*from/to, (i + 1)*from/to): in units of 1/to these are whole numbers.
Share averaged(std::int64_t i, std::int64_t from, std::int64_t to) {
  const std::int64_t begin = i * from, end = (i + 1) * from;
  Share share{begin / to, {}};
  for (std::int64_t p = share.first; p * to < end; ++p) {
    const std::int64_t covered = std::min(end, (p + 1) * to) - std::max(begin, p * to);
    share.weights.push_back(static_cast<double>(covered) / static_cast<double>(from));
  }
  return share;
}

std::vector<Share> shares(std::int64_t from, std::int64_t to) {
  std::vector<Share> all;
  for (std::int64_t i = 0; i < to; ++i) {
    all.push_back(to >= from ? interpolated(i, from, to) : averaged(i, from, to));
  }
  return all;
}

}  // namespace

void check_image_size(std::int64_t height, std::int64_t width, const std::string& name) {
  if (height < 1 || width < 1 || height > kLargestImageSide || width > kLargestImageSide ||
      height * width > kMostImagePixels) {
    throw UserError(name, format("is an image of %lld x %lld (sides of 1 to %d and at most %lld "
                                 "pixels are accepted). Remove it or make it smaller.",
                                 static_cast<long long>(height), static_cast<long long>(width),
                                 kLargestImageSide, static_cast<long long>(kMostImagePixels)));
  }
}

void refuse_damaged(const std::string& name, const std::string& format, const std::string& why) {
  throw UserError(name, "cannot be read as a " + format + " image (" + why +
                            "). The file is cut short or damaged: fetch it again or remove it.");
}

namespace {

[[noreturn]] void refuse_format(std::string_view bytes, const std::string& name) {
  if (bytes.empty()) {
    throw UserError(name, "is empty (0 bytes are no image). Fetch it again or remove it.");
  }
  throw UserError(name,
                  "is neither JPEG nor PNG (only these two are read, whatever its name). Convert "
                  "the image or remove it.");
}

}  // namespace

Image decode_image(std::string_view bytes, const std::string& name) {
  if (is_jpeg(bytes)) return decode_jpeg(bytes, name);
  if (is_png(bytes)) return decode_png(bytes, name);
  refuse_format(bytes, name);
}

Image read_image(const std::filesystem::path& path) {
  return decode_image(read_file(path), path.string());
}

Image decoded(StoredImage image, const std::string& name) {
  if (Image* const ready = std::get_if<Image>(&image)) return std::move(*ready);
  return decode_image(std::get<std::string>(image), name);
}

ImageSize size_of(const StoredImage& image, const std::string& name) {
  if (const Image* const ready = std::get_if<Image>(&image)) return {ready->height, ready->width};
  const std::string& bytes = std::get<std::string>(image);
  if (is_jpeg(bytes)) return jpeg_size(bytes, name);
  if (is_png(bytes)) return png_size(bytes, name);
  refuse_format(bytes, name);
}

ImagePart part_of(const StoredImage& stored, const std::string& name, Box box, ImageSize least) {
  if (const std::string* const bytes = std::get_if<std::string>(&stored)) {
    if (is_jpeg(*bytes)) return decode_jpeg_part(*bytes, name, box, least);
  }
  return {decoded(stored, name), box};
}

Image with_channels(Image image, int channels) {
  ensure(channels == 1 || channels == 3, "an image has 1 or 3 channels");
  if (image.channels == channels) return image;
  Image out{image.height, image.width, channels, {}};
  out.pixels.reserve(static_cast<std::size_t>(image.height) *
                     static_cast<std::size_t>(image.width * channels));
  if (channels == 3) {
    for (const std::uint8_t value : image.pixels) out.pixels.insert(out.pixels.end(), 3, value);
    return out;
  }
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    // The three weights in units of 2^-16.
    const std::uint32_t grey = 19595u * image.pixels[i] + 38470u * image.pixels[i + 1] +
                               7471u * image.pixels[i + 2] + 0x8000u;
    out.pixels.push_back(static_cast<std::uint8_t>(grey >> 16));
  }
  return out;
}

Image resized(const Image& image, int height, int width) {
  ensure(height > 0 && width > 0, "an image has rows and columns");
  if (image.height == height && image.width == width) return image;
  const std::size_t channels = static_cast<std::size_t>(image.channels);
  const std::size_t row_in = static_cast<std::size_t>(image.width) * channels;
  const std::size_t row_out = static_cast<std::size_t>(width) * channels;
  const std::vector<Share> rows = shares(image.height, height),
                           columns = shares(image.width, width);
  Image out{height, width, image.channels, {}};
  out.pixels.reserve(static_cast<std::size_t>(height) * row_out);
  std::vector<double> sums(row_in);
  for (const Share& row : rows) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::size_t k = 0; k < row.weights.size(); ++k) {
      const std::uint8_t* from =
          image.pixels.data() + (static_cast<std::size_t>(row.first) + k) * row_in;
      for (std::size_t i = 0; i < row_in; ++i) sums[i] += row.weights[k] * from[i];
    }
    for (const Share& column : columns) {
      for (std::size_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (std::size_t k = 0; k < column.weights.size(); ++k) {
          sum +=
              column.weights[k] * sums[(static_cast<std::size_t>(column.first) + k) * channels + c];
        }
        out.pixels.push_back(static_cast<std::uint8_t>(std::clamp(sum + 0.5, 0.0, 255.0)));
      }
    }
  }
  return out;
}

Image center_cropped(const Image& image, int height, int width) {
  const std::int64_t h = image.height, w = image.width;
  const std::int64_t rows = std::clamp<std::int64_t>(w * height / width, 1, h);
  const std::int64_t columns = std::clamp<std::int64_t>(h * width / height, 1, w);
  if (rows == h && columns == w) return image;
  Image out{static_cast<int>(rows), static_cast<int>(columns), image.channels, {}};
  const std::int64_t length = columns * image.channels;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto from =
        image.pixels.begin() + (((h - rows) / 2 + r) * w + (w - columns) / 2) * image.channels;
    out.pixels.insert(out.pixels.end(), from, from + length);
  }
  return out;
}

}  // namespace hetpipe
