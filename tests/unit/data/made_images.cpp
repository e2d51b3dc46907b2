// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/data/made_images.h"

#include <cstdio>
#include <cstdlib>

// After <cstdio>: libjpeg's header needs FILE.
#include <jpeglib.h>
#include <png.h>

namespace hetpipe {

Image made_image(int height, int width, int channels, int key) {
  Image image{height, width, channels, {}};
  for (int i = 0; i < height * width * channels; ++i) {
    image.pixels.push_back(static_cast<std::uint8_t>((i * 37 + key * 101 + i / 7) % 256));
  }
  return image;
}

Image flat_image(int height, int width, const std::vector<std::uint8_t>& color) {
  Image image{height, width, static_cast<int>(color.size()), {}};
  for (int i = 0; i < height * width; ++i) {
    image.pixels.insert(image.pixels.end(), color.begin(), color.end());
  }
  return image;
}

std::string jpeg_of(const Image& image, bool adobe) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&jpeg, &bytes, &count);
  jpeg.image_height = static_cast<JDIMENSION>(image.height);
  jpeg.image_width = static_cast<JDIMENSION>(image.width);
  jpeg.input_components = image.channels;
  jpeg.in_color_space = image.channels == 1   ? JCS_GRAYSCALE
                        : image.channels == 4 ? JCS_CMYK
                                              : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  if (image.channels == 4) jpeg.write_Adobe_marker = adobe ? TRUE : FALSE;
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<unsigned char> pixels = image.pixels;
  const std::size_t length = static_cast<std::size_t>(image.width * image.channels);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = pixels.data() + jpeg.next_scanline * length;
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string text(reinterpret_cast<char*>(bytes), count);
  std::free(bytes);
  return text;
}

std::string png_of(const PngParts& parts) {
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA, PNG_COLOR_TYPE_PALETTE};
  std::string text;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &text,
      [](png_structp to, png_bytep bytes, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(to))
            ->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(parts.width),
               static_cast<png_uint_32>(parts.height), parts.bits,
               kTypes[static_cast<int>(parts.kind)],
               parts.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (std::size_t i = 0; i < parts.palette.size(); i += 3) {
    palette.push_back({parts.palette[i], parts.palette[i + 1], parts.palette[i + 2]});
  }
  if (!palette.empty()) png_set_PLTE(png, info, palette.data(), static_cast<int>(palette.size()));
  png_write_info(png, info);
  std::vector<std::uint8_t> pixels = parts.rows;
  std::vector<png_bytep> rows;
  const std::size_t length = pixels.size() / static_cast<std::size_t>(parts.height);
  for (int r = 0; r < parts.height; ++r) {
    rows.push_back(pixels.data() + static_cast<std::size_t>(r) * length);
  }
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return text;
}

std::string png_of(const Image& image) {
  return png_of({.height = image.height,
                 .width = image.width,
                 .kind = image.channels == 1 ? PngKind::grey : PngKind::rgb,
                 .rows = image.pixels,
                 .palette = {}});
}

}  // namespace hetpipe
