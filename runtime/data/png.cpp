// SPDX-License-Identifier: Apache-2.0
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "runtime/data/image_codecs.h"

namespace hetpipe {
namespace {

// libpng leaves its functions by longjmp; between setjmp and there nothing may need a destructor,
// so this holds all state and the functions below no objects of their own.
struct PngDecoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  const char* at = nullptr;
  std::size_t left = 0;
  char why[128] = "";

  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

void leave(png_structp png, png_const_charp why) {
  PngDecoder& decoder = *static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder.why, sizeof decoder.why, "%s", why);
  png_longjmp(png, 1);
}

void ignore(png_structp, png_const_charp) {}  // of what is beside the pixels: profiles, texts

void take(png_structp png, png_bytep to, std::size_t count) {
  PngDecoder& decoder = *static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (count > decoder.left) png_error(png, "its data end early");
  std::memcpy(to, decoder.at, count);
  decoder.at += count;
  decoder.left -= count;
}

bool begin(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder, take);
  png_set_user_limits(decoder.png, kLargestImageSide, kLargestImageSide);
  png_read_info(decoder.png, decoder.info);
  const png_byte type = png_get_color_type(decoder.png, decoder.info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(decoder.png);
  if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(decoder.png);
  png_set_scale_16(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool read_rows(PngDecoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, nullptr);
  return true;
}

}  // namespace

bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

namespace {

// The header has been read.
ImageSize open(PngDecoder& decoder, std::string_view bytes, const std::string& name) {
  decoder.at = bytes.data();
  decoder.left = bytes.size();
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, leave, ignore);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) throw SystemError("cannot set up libpng to read " + name);
  if (!begin(decoder)) refuse_damaged(name, "PNG", decoder.why);
  const std::int64_t height = png_get_image_height(decoder.png, decoder.info);
  const std::int64_t width = png_get_image_width(decoder.png, decoder.info);
  check_image_size(height, width, name);
  return {static_cast<int>(height), static_cast<int>(width)};
}

}  // namespace

ImageSize png_size(std::string_view bytes, const std::string& name) {
  PngDecoder decoder;
  return open(decoder, bytes, name);
}

Image decode_png(std::string_view bytes, const std::string& name) {
  PngDecoder decoder;
  const ImageSize size = open(decoder, bytes, name);
  const std::size_t length = png_get_rowbytes(decoder.png, decoder.info);
  const auto height = static_cast<std::size_t>(size.height);
  Image image{size.height, size.width, png_get_channels(decoder.png, decoder.info),
              std::vector<std::uint8_t>(height * length)};
  ensure(image.channels == 1 || image.channels == 3, "grey or RGB once alpha is dropped");
  std::vector<png_bytep> rows;
  for (std::size_t r = 0; r < height; ++r) rows.push_back(image.pixels.data() + r * length);
  if (!read_rows(decoder, rows.data())) refuse_damaged(name, "PNG", decoder.why);
  return image;
}

std::string encode_png(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) ==
      0) {
    throw SystemError(std::string("libpng writes no image (") + png.message + ")");
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace hetpipe
