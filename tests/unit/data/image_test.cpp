// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/image.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "tests/unit/data/made_images.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace image_test {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Bytes = std::vector<std::uint8_t>;

int largest_difference(const Bytes& a, const Bytes& b) {
  if (a.size() != b.size()) return 256;
  int largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

std::string refusal(const std::string& bytes) {
  return error_of<UserError>([&] { decode_image(bytes, "x.img"); });
}

TEST(DecodeImage, PngIsExact) {
  for (const int channels : {1, 3}) {
    const Image image = made_image(7, 5, channels);
    const Image got = decode_image(png_of(image), "x");
    EXPECT_EQ(got.height, 7);
    EXPECT_EQ(got.width, 5);
    EXPECT_EQ(got.channels, channels);
    EXPECT_EQ(got.pixels, image.pixels);
    const Image interlaced =
        decode_image(png_of({.height = 7,
                             .width = 5,
                             .kind = channels == 1 ? PngKind::grey : PngKind::rgb,
                             .interlaced = true,
                             .rows = image.pixels,
                             .palette = {}}),
                     "x");
    EXPECT_EQ(interlaced.pixels, image.pixels);
  }
}

TEST(DecodeImage, PngOfOtherKindsBecomesGreyOrRgb) {
  const auto pixels = [](PngKind kind, int bits, Bytes rows, Bytes palette = {}) {
    return decode_image(png_of({.height = 1,
                                .width = 2,
                                .kind = kind,
                                .bits = bits,
                                .rows = std::move(rows),
                                .palette = std::move(palette)}),
                        "x")
        .pixels;
  };
  // Alpha is dropped, whatever it is.
  EXPECT_THAT(pixels(PngKind::rgb_alpha, 8, {1, 2, 3, 0, 4, 5, 6, 255}),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(pixels(PngKind::grey_alpha, 8, {9, 0, 200, 128}), ElementsAre(9, 200));
  EXPECT_THAT(pixels(PngKind::palette, 8, {1, 0}, {10, 20, 30, 40, 50, 60}),
              ElementsAre(40, 50, 60, 10, 20, 30));
  // 1 and 4 bits spread to 0..255; 16 bits are x*255/65535, rounded.
  EXPECT_THAT(pixels(PngKind::grey, 1, {0x40}), ElementsAre(0, 255));
  EXPECT_THAT(pixels(PngKind::grey, 4, {0x3f}), ElementsAre(51, 255));
  EXPECT_THAT(pixels(PngKind::grey, 16, {0x12, 0xff, 0xff, 0xff}), ElementsAre(19, 255));
  EXPECT_THAT(pixels(PngKind::rgb, 16, {0, 0, 128, 128, 1, 0, 0, 255, 2, 2, 255, 255}),
              ElementsAre(0, 128, 1, 1, 2, 255));
}

// At quality 100 a flat picture comes back within one step.
TEST(DecodeImage, Jpeg) {
  for (const Bytes& color : {Bytes{77}, Bytes{200, 30, 90}}) {
    const Image image = flat_image(9, 17, color);
    const Image got = decode_image(jpeg_of(image), "x");
    EXPECT_EQ(got.height, 9);
    EXPECT_EQ(got.width, 17);
    EXPECT_EQ(got.channels, static_cast<int>(color.size()));
    EXPECT_LE(largest_difference(got.pixels, image.pixels), 1);
  }
  // A ramp of grey keeps its places.
  Image ramp{16, 16, 1, {}};
  for (int i = 0; i < 256; ++i) ramp.pixels.push_back(static_cast<std::uint8_t>(i));
  EXPECT_LE(largest_difference(decode_image(jpeg_of(ramp), "x").pixels, ramp.pixels), 2);
}

// Cyan 51 of 255, no magenta, yellow 255, black 0; or, as Adobe stores it, 255 minus each.
TEST(DecodeImage, JpegOfInksBecomesRgb) {
  const Bytes rgb = flat_image(8, 8, {204, 255, 0}).pixels;
  const Image plain = decode_image(jpeg_of(flat_image(8, 8, {51, 0, 255, 0})), "x");
  EXPECT_EQ(plain.channels, 3);
  EXPECT_LE(largest_difference(plain.pixels, rgb), 2);
  const Image adobe = decode_image(jpeg_of(flat_image(8, 8, {204, 255, 0, 255}), true), "x");
  EXPECT_LE(largest_difference(adobe.pixels, rgb), 2);
  const Image dark = decode_image(jpeg_of(flat_image(8, 8, {0, 0, 0, 204})), "x");
  EXPECT_LE(largest_difference(dark.pixels, flat_image(8, 8, {51, 51, 51}).pixels), 2);
}

TEST(DecodeImage, EveryTruncationIsNoticed) {
  for (const std::string& bytes : {png_of(made_image(6, 6, 3)), jpeg_of(made_image(12, 12, 3)),
                                   jpeg_of(made_image(9, 9, 1))}) {
    // The last bytes end the file after its pixels: IEND's checksum, EOI.
    const std::size_t needed = bytes.size() - 2;
    for (std::size_t length = 0; length <= needed; ++length) {
      EXPECT_THAT(refusal(bytes.substr(0, length)), HasSubstr("x.img")) << length;
    }
    decode_image(bytes, "x.img");
  }
  EXPECT_THAT(refusal(png_of(made_image(6, 6, 3)).substr(0, 60)),
              AllOf(HasSubstr("x.img: cannot be read as a PNG image"), HasSubstr("end early"),
                    HasSubstr("fetch it again")));
  EXPECT_THAT(refusal(jpeg_of(made_image(30, 30, 3)).substr(0, 700)),
              AllOf(HasSubstr("x.img: cannot be read as a JPEG image"), HasSubstr("remove it")));
}

TEST(DecodeImage, DamageIsNoticed) {
  std::string png = png_of(made_image(20, 20, 3));
  png[png.size() / 2] ^= 0x55;
  EXPECT_THAT(refusal(png), HasSubstr("damaged"));
  std::string jpeg = jpeg_of(made_image(20, 20, 3));
  jpeg.replace(jpeg.size() / 2, 2, "\xff\xd9");  // the end, in its middle
  EXPECT_THAT(refusal(jpeg), HasSubstr("damaged"));
  EXPECT_THAT(refusal("GIF89a..."), HasSubstr("is neither JPEG nor PNG"));
  EXPECT_THAT(refusal(""), HasSubstr("is empty"));
}

TEST(DecodeImage, StrayBytesBetweenSegmentsDoNoHarm) {
  const Image image = flat_image(8, 8, {100, 150, 200});
  std::string jpeg = jpeg_of(image);
  jpeg.insert(20, std::string(3, '\0'));  // after the first segment, of 16 bytes
  EXPECT_LE(largest_difference(decode_image(jpeg, "x").pixels, image.pixels), 1);
}

TEST(Channels, GreyIsRepeatedAndColorWeighted) {
  EXPECT_THAT(with_channels({1, 2, 1, {7, 200}}, 3).pixels, ElementsAre(7, 7, 7, 200, 200, 200));
  // 0.299*255 = 76.2, 0.587*255 = 149.7, 0.114*255 = 29.1.
  EXPECT_THAT(with_channels({1, 4, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255, 255, 255, 255}}, 1).pixels,
              ElementsAre(76, 150, 29, 255));
  const Image same = made_image(2, 2, 3);
  EXPECT_EQ(with_channels(same, 3).pixels, same.pixels);
}

TEST(Resize, KeepsFlatPicturesAndSizes) {
  const Image image = flat_image(6, 9, {10, 130, 255});
  for (const auto& [height, width] : {std::pair{6, 9}, {3, 3}, {13, 4}, {1, 1}, {7, 20}}) {
    const Image out = resized(image, height, width);
    EXPECT_EQ(out.pixels, flat_image(height, width, {10, 130, 255}).pixels);
    EXPECT_EQ(out.height, height);
    EXPECT_EQ(out.width, width);
  }
}

TEST(Resize, ShrinkingAveragesAreas) {
  const Image row{1, 6, 1, {10, 20, 30, 50, 100, 200}};
  EXPECT_THAT(resized(row, 1, 3).pixels, ElementsAre(15, 40, 150));
  EXPECT_THAT(resized(row, 1, 2).pixels, ElementsAre(20, 117));  // 116.67
  // Each of four covers one and a half: 10 and half of 20, half of 20 and 30, ...
  EXPECT_THAT(resized(row, 1, 4).pixels, ElementsAre(13, 27, 67, 167));
  const Image square{2, 2, 1, {0, 10, 20, 40}};
  EXPECT_THAT(resized(square, 1, 1).pixels, ElementsAre(18));  // 17.5 rounds up
}

TEST(Resize, GrowingInterpolatesBetweenCenters) {
  const Image row{1, 2, 1, {0, 100}};
  EXPECT_THAT(resized(row, 1, 4).pixels, ElementsAre(0, 25, 75, 100));
  EXPECT_THAT(resized({2, 1, 1, {0, 100}}, 4, 1).pixels, ElementsAre(0, 25, 75, 100));
  EXPECT_THAT(resized({1, 1, 3, {1, 2, 3}}, 2, 2).pixels,
              ElementsAre(1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3));
}

TEST(Crop, TakesTheMiddle) {
  const Image image{2, 4, 1, {1, 2, 3, 4, 5, 6, 7, 8}};
  EXPECT_THAT(center_cropped(image, 1, 1).pixels, ElementsAre(2, 3, 6, 7));
  EXPECT_EQ(center_cropped(image, 10, 20).pixels, image.pixels);
  EXPECT_THAT(center_cropped(image, 1, 4).pixels, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(center_cropped({3, 1, 1, {1, 2, 3}}, 5, 5).pixels, ElementsAre(2));
}

}  // namespace image_test
}  // namespace hetpipe
