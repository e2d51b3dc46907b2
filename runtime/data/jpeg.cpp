// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdio>

// After <cstdio>: libjpeg's header needs FILE.
#include <jerror.h>
#include <jpeglib.h>

#include "runtime/data/image_codecs.h"

namespace hetpipe {
namespace {

// libjpeg leaves its functions by longjmp; between setjmp and there nothing may need a destructor,
// so this holds all state and the functions below no objects of their own.
struct JpegDecoder {
  jpeg_decompress_struct jpeg;
  jpeg_error_mgr errors;
  std::jmp_buf back;
  char why[JMSG_LENGTH_MAX];
};

void leave(j_common_ptr jpeg) {
  JpegDecoder& decoder = *static_cast<JpegDecoder*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, decoder.why);
  std::longjmp(decoder.back, 1);
}

// Warnings of data that is missing or wrong end the decoding: libjpeg would continue with grey.
// Stray bytes between segments, which some cameras write, and odd Adobe marks harm no pixel.
void on_message(j_common_ptr jpeg, int level) {
  const int code = jpeg->err->msg_code;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM) leave(jpeg);
}

bool begin(JpegDecoder& decoder, const unsigned char* bytes, std::size_t count) {
  decoder.jpeg.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = leave;
  decoder.errors.emit_message = on_message;
  decoder.jpeg.client_data = &decoder;
  if (setjmp(decoder.back) != 0) return false;
  jpeg_create_decompress(&decoder.jpeg);
  jpeg_mem_src(&decoder.jpeg, bytes, static_cast<unsigned long>(count));
  jpeg_read_header(&decoder.jpeg, TRUE);
  const J_COLOR_SPACE stored = decoder.jpeg.jpeg_color_space;
  decoder.jpeg.out_color_space = stored == JCS_GRAYSCALE                    ? JCS_GRAYSCALE
                                 : stored == JCS_CMYK || stored == JCS_YCCK ? JCS_CMYK
                                                                            : JCS_RGB;
  decoder.jpeg.dct_method = JDCT_ISLOW;  // the same bits on every machine
  return true;
}

// Of the output, in its pixels.
struct JpegPart {
  JDIMENSION top = 0, left = 0, height = 0, width = 0;
};

// From there on; `part` becomes what is decoded, which is wider where blocks are.
bool start_part(JpegDecoder& decoder, JpegPart& part) {
  if (setjmp(decoder.back) != 0) return false;
  jpeg_start_decompress(&decoder.jpeg);
  jpeg_crop_scanline(&decoder.jpeg, &part.left, &part.width);
  return true;
}

bool read_part(JpegDecoder& decoder, const JpegPart& part, unsigned char* pixels) {
  if (setjmp(decoder.back) != 0) return false;
  if (part.top > 0) jpeg_skip_scanlines(&decoder.jpeg, part.top);
  const std::size_t length =
      std::size_t{part.width} * static_cast<std::size_t>(decoder.jpeg.output_components);
  for (JDIMENSION r = 0; r < part.height;) {
    JSAMPROW row = pixels + r * length;
    r += jpeg_read_scanlines(&decoder.jpeg, &row, 1);
  }
  jpeg_abort_decompress(&decoder.jpeg);
  return true;
}

bool read_rows(JpegDecoder& decoder, unsigned char* pixels) {
  if (setjmp(decoder.back) != 0) return false;
  jpeg_start_decompress(&decoder.jpeg);
  const std::size_t length = std::size_t{decoder.jpeg.output_width} *
                             static_cast<std::size_t>(decoder.jpeg.output_components);
  while (decoder.jpeg.output_scanline < decoder.jpeg.output_height) {
    JSAMPROW row = pixels + decoder.jpeg.output_scanline * length;
    jpeg_read_scanlines(&decoder.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&decoder.jpeg);
  return true;
}

// CMYK to RGB. Adobe's programs store the inks inverted, and everybody follows their mark.
std::vector<std::uint8_t> without_inks(const std::vector<std::uint8_t>& inks, bool inverted) {
  std::vector<std::uint8_t> pixels;
  pixels.reserve(inks.size() / 4 * 3);
  for (std::size_t i = 0; i < inks.size(); i += 4) {
    const auto paper = [&](std::size_t k) { return inverted ? inks[i + k] : 255 - inks[i + k]; };
    for (std::size_t k = 0; k < 3; ++k) {
      pixels.push_back(static_cast<std::uint8_t>((paper(k) * paper(3) + 127) / 255));
    }
  }
  return pixels;
}

struct Cleanup {
  JpegDecoder& decoder;
  ~Cleanup() { jpeg_destroy_decompress(&decoder.jpeg); }
};

}  // namespace

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8\xff"); }

namespace {

// The header has been read.
ImageSize open(JpegDecoder& decoder, std::string_view bytes, const std::string& name) {
  if (!begin(decoder, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())) {
    refuse_damaged(name, "JPEG", decoder.why);
  }
  check_image_size(decoder.jpeg.image_height, decoder.jpeg.image_width, name);
  return {static_cast<int>(decoder.jpeg.image_height), static_cast<int>(decoder.jpeg.image_width)};
}

// A file that was cut short shows it only where it is decoded to its end.
bool has_end(std::string_view bytes) {
  constexpr std::size_t kPadding = 4096;
  const std::size_t from = bytes.size() - std::min(bytes.size(), kPadding);
  return bytes.find("\xff\xd9", from) != std::string_view::npos;
}

}  // namespace

ImageSize jpeg_size(std::string_view bytes, const std::string& name) {
  JpegDecoder decoder{};
  const Cleanup cleanup{decoder};
  return open(decoder, bytes, name);
}

ImagePart decode_jpeg_part(std::string_view bytes, const std::string& name, Box box,
                           ImageSize least) {
  JpegDecoder decoder{};
  const Cleanup cleanup{decoder};
  open(decoder, bytes, name);
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  if (jpeg.out_color_space == JCS_CMYK || !has_end(bytes)) return {decode_jpeg(bytes, name), box};
  unsigned eighths = 8;
  while (eighths > 1 && box.height * (eighths / 2) / 8 >= least.height &&
         box.width * (eighths / 2) / 8 >= least.width) {
    eighths /= 2;
  }
  jpeg.scale_num = eighths;
  jpeg.scale_denom = 8;
  jpeg_calc_output_dimensions(&jpeg);
  // Each side by itself: sizes are rounded up.
  const double down = static_cast<double>(jpeg.output_height) / jpeg.image_height;
  const double across = static_cast<double>(jpeg.output_width) / jpeg.image_width;
  box = {box.top * down, box.left * across, box.height * down, box.width * across};
  // Colours between blocks are interpolated: a block more each way gives the bits of the whole.
  constexpr double kMargin = 16;
  const auto limit = [](double place, JDIMENSION most) {
    return static_cast<JDIMENSION>(std::clamp(place, 0.0, static_cast<double>(most)));
  };
  JpegPart part;
  part.top = limit(std::floor(box.top - kMargin), jpeg.output_height - 1);
  part.left = limit(std::floor(box.left - kMargin), jpeg.output_width - 1);
  part.height = limit(std::ceil(box.top + box.height + kMargin), jpeg.output_height) - part.top;
  part.width = limit(std::ceil(box.left + box.width + kMargin), jpeg.output_width) - part.left;
  if (!start_part(decoder, part)) refuse_damaged(name, "JPEG", decoder.why);
  const int channels = jpeg.output_components;
  Image image{static_cast<int>(part.height), static_cast<int>(part.width), channels,
              std::vector<std::uint8_t>(std::size_t{part.height} * part.width *
                                        static_cast<std::size_t>(channels))};
  if (!read_part(decoder, part, image.pixels.data())) refuse_damaged(name, "JPEG", decoder.why);
  box.top -= part.top;
  box.left -= part.left;
  return {std::move(image), box};
}

Image decode_jpeg(std::string_view bytes, const std::string& name) {
  JpegDecoder decoder{};
  const Cleanup cleanup{decoder};
  open(decoder, bytes, name);
  const J_COLOR_SPACE space = decoder.jpeg.out_color_space;
  const int stored = space == JCS_GRAYSCALE ? 1 : space == JCS_CMYK ? 4 : 3;
  Image image{
      static_cast<int>(decoder.jpeg.image_height), static_cast<int>(decoder.jpeg.image_width),
      stored == 1 ? 1 : 3,
      std::vector<std::uint8_t>(std::size_t{decoder.jpeg.image_height} * decoder.jpeg.image_width *
                                static_cast<std::size_t>(stored))};
  if (!read_rows(decoder, image.pixels.data())) refuse_damaged(name, "JPEG", decoder.why);
  if (stored == 4) {
    image.pixels = without_inks(image.pixels, decoder.jpeg.saw_Adobe_marker != FALSE);
  }
  return image;
}

}  // namespace hetpipe
