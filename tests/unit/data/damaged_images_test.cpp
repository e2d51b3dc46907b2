// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <zlib.h>

#include <algorithm>

#include "base/error.h"
#include "runtime/data/image_dataset.h"
#include "runtime/data/shards.h"
#include "tests/unit/data/made_images.h"
#include "tests/unit/data/made_tar.h"
#include "tests/unit/data/scratch_folder.h"

// Images that are not as they should be, in data sets: in files of their own and in shards, decoded
// whole and in part.
namespace hetpipe {
namespace data_damaged_images_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

// PNG, 5.3: length, type, data, CRC of the last two.
std::string chunk(const std::string& type, const std::string& data) {
  const std::string both = type + data;
  const auto sum =
      ::crc32(0, reinterpret_cast<const Bytef*>(both.data()), static_cast<uInt>(both.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + both +
         big_endian(static_cast<std::uint32_t>(sum));
}

constexpr std::size_t kHeaderEnd = 8 + 25;  // of a PNG: signature and IHDR

// PNG, third edition: two frames of the same size, the first of which is the default image.
std::string animated_png(const Image& first, const Image& second) {
  const std::string bytes = png_of(first), other = png_of(second);
  const auto frame = [&](std::uint32_t sequence) {
    return chunk("fcTL", big_endian(sequence) +
                             big_endian(static_cast<std::uint32_t>(first.width)) +
                             big_endian(static_cast<std::uint32_t>(first.height)) + big_endian(0) +
                             big_endian(0) + std::string("\0\1\0\12\0\0", 6));
  };
  const std::size_t data = other.find("IDAT"), end = bytes.find("IEND") - 4;
  const std::size_t length = other.find("IEND") - 8 - (data + 4);
  return bytes.substr(0, kHeaderEnd) + chunk("acTL", big_endian(2) + big_endian(0)) + frame(0) +
         bytes.substr(kHeaderEnd, end - kHeaderEnd) + frame(1) +
         chunk("fdAT", big_endian(2) + other.substr(data + 4, length)) + bytes.substr(end);
}

// An image whose header says other sides.
std::string png_that_says(std::uint32_t side) {
  const std::string bytes = png_of(made_image(4, 6, 3));
  return bytes.substr(0, 8) +
         chunk("IHDR", big_endian(side) + big_endian(side) + std::string("\10\2\0\0\0", 5)) +
         bytes.substr(kHeaderEnd);
}
std::string jpeg_that_says(std::uint16_t side) {
  std::string bytes = jpeg_of(made_image(24, 36, 3));
  const std::size_t frame = bytes.find("\xff\xc0");  // length (2), bits (1), height (2), width (2)
  const std::string two = big_endian(side).substr(2);
  return bytes.replace(frame + 5, 4, two + two);
}

// A class of four images, and another one; `second` is the second image of the first class.
class DamagedImages : public ::testing::TestWithParam<std::tuple<bool, std::string>> {
 protected:
  static constexpr int kHeight = 24, kWidth = 36;
  static Image sound(int key) { return flat_image(kHeight, kWidth, {std::uint8_t(key * 9), 3, 5}); }

  Dataset open(const std::string& second, const std::string& ending, int skip_damaged = 0) {
    setenv("HETPIPE_CACHE", "/proc/none", 1);  // where nothing can be kept
    const auto& [in_shards, transforms] = GetParam();
    const fs::path place = folder_ / "data";
    fs::remove_all(place);
    std::string tar;
    for (int i = 0; i < 8; ++i) {
      const std::string label = i < 4 ? "0" : "1", stem = label + "/" + std::to_string(i);
      const std::string bytes = i == 1 ? second : png_of(sound(i));
      const std::string end = i == 1 ? ending : ".png";
      tar += tar_sample(stem, bytes, label, end);
      fs::create_directories(place / label);
      if (!in_shards) write_plain(place / (stem + end), bytes);
    }
    if (in_shards) write_plain(place / "train-0.tar", tar + tar_end());
    ImageSources sources =
        in_shards ? open_shards("shards:" + place.string()) : open_image_folder(place);
    ImageRules rules;
    rules.train = parse_transforms(transforms, "");
    rules.skip_damaged = skip_damaged;
    unsetenv("HETPIPE_CACHE");
    return image_dataset(std::move(sources.train), sources.classes, "x", rules, Split::train,
                         Parts::both);
  }
  static std::vector<std::uint8_t> read(const Dataset& data, std::int64_t index) {
    std::vector<std::uint8_t> sample(static_cast<std::size_t>(data.sample_values()));
    data.copy_stored({0, index}, reinterpret_cast<std::byte*>(sample.data()));
    return sample;
  }
  // It is refused with its place in the data set, or is replaced by the next of its class.
  void expect_refused(const std::string& second, const std::string& ending,
                      const std::string& why) {
    SCOPED_TRACE(why);
    const Dataset strict = open(second, ending);
    EXPECT_THAT(error_of<UserError>([&] { read(strict, 1); }),
                AllOf(HasSubstr("0/1" + ending + ": "), HasSubstr(why),
                      HasSubstr(std::get<0>(GetParam()) ? "train-0.tar: " : "data/")));
    EXPECT_EQ(read(strict, 0), read(strict, 0));  // others are read
    const Dataset lenient = open(second, ending, 1);
    EXPECT_EQ(read(lenient, 1)[0], 2 * 9);
  }
  ScratchFolder folder_;
};

INSTANTIATE_TEST_SUITE_P(Data, DamagedImages,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Values("", "RandomResizedCrop(8)",
                                                              "Resize(20), CenterCrop(16)")));

TEST_P(DamagedImages, CutShort) {
  for (const Image& image : {made_image(kHeight, kWidth, 3), made_image(400, 600, 3)}) {
    const std::string jpeg = jpeg_of(image), png = png_of(image);
    for (const std::size_t tenths : {1, 5, 9}) {
      expect_refused(jpeg.substr(0, jpeg.size() * tenths / 10), ".jpg", "as a JPEG image");
      expect_refused(png.substr(0, png.size() * tenths / 10), ".png", "as a PNG image");
    }
    expect_refused(jpeg.substr(0, 3), ".jpg", "as a JPEG image");
  }
}

TEST_P(DamagedImages, NoImageAtAll) {
  expect_refused("", ".png", "is empty");
  expect_refused("", ".jpeg", "is empty");
  expect_refused(std::string(5000, '\0'), ".png", "is neither JPEG nor PNG");
  expect_refused("GIF89a" + std::string(100, '\1'), ".png", "is neither JPEG nor PNG");
  expect_refused("<html>404</html>", ".jpg", "is neither JPEG nor PNG");
}

// Sides that are beyond what an image may have are refused before memory is taken for them.
TEST_P(DamagedImages, Bombs) {
  const auto most_memory = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = most_memory();
  expect_refused(png_that_says(50000), ".png", "is an image of 50000 x 50000");
  expect_refused(jpeg_that_says(50000), ".jpg", "is an image of 50000 x 50000");
  expect_refused(png_that_says(2'000'000'000), ".png", "as a PNG image");
  EXPECT_LT(most_memory() - before, 200 * 1024);
}

// What is read, though it is not as most are.
TEST_P(DamagedImages, UnusualIsRead) {
  const auto [in_shards, transforms] = GetParam();
  // Flat, so that all transforms keep their colours.
  const auto colour = [&](const std::string& bytes, const std::string& ending) {
    const Dataset data = open(bytes, ending);
    const std::vector<std::uint8_t> all = read(data, 1);
    return std::vector<int>(all.begin(), all.begin() + 3);
  };
  std::vector<std::uint8_t> wide;  // 16 bits: 0x8080, 0x0101, 0xffff are 128, 1 and 255 of 8
  for (int i = 0; i < kHeight * kWidth; ++i) wide.insert(wide.end(), {128, 128, 1, 1, 255, 255});
  EXPECT_EQ(
      colour(png_of({.height = kHeight, .width = kWidth, .bits = 16, .rows = wide, .palette = {}}),
             ".png"),
      (std::vector{128, 1, 255}));
  const Image inks = flat_image(kHeight, kWidth, {0, 0, 0, 204});  // a dark grey, 255 - 204
  for (const int value : colour(jpeg_of(inks), ".jpg")) EXPECT_NEAR(value, 51, 2);
  const std::string animated = animated_png(flat_image(kHeight, kWidth, {10, 20, 30}),
                                            flat_image(kHeight, kWidth, {200, 200, 200}));
  EXPECT_EQ(colour(animated, ".png"), (std::vector{10, 20, 30}));  // the first frame
}

// Of files alone: what a tar file cannot hold.
class UnreadableImages : public ::testing::Test {
 protected:
  UnreadableImages() {
    for (const char* name : {"a/1.png", "a/2.png", "b/1.png"}) {
      fs::create_directories((folder_ / name).parent_path());
      write_plain(folder_ / name, png_of(flat_image(4, 4, {7, 7, 7})));
    }
  }
  ScratchFolder folder_;
};

TEST_F(UnreadableImages, DanglingLinksAreNamedOrSkipped) {
  fs::remove(folder_ / "a/2.png");
  fs::create_symlink("nowhere", folder_ / "a/2.png");
  for (const int skipped : {0, 1}) {
    ImageSources sources = open_image_folder(folder_.path());
    ImageRules rules;
    rules.skip_damaged = skipped;
    const Dataset data =
        image_dataset(std::move(sources.train), 2, "x", rules, Split::train, Parts::both);
    std::vector<std::byte> sample(static_cast<std::size_t>(data.sample_values()));
    if (skipped == 0) {
      EXPECT_THAT(error_of<UserError>([&] {
                    data.copy_stored({0, 1}, sample.data());
                  }),
                  HasSubstr("a/2.png: cannot be read (No such file"));
    } else {
      data.copy_stored({0, 1}, sample.data());
      EXPECT_EQ(sample[0], std::byte{7});
    }
  }
}

TEST_F(UnreadableImages, FoldersOfThatNameAreRefused) {
  fs::create_directory(folder_ / "b/2.png");
  EXPECT_THAT(error_of<UserError>([&] { open_image_folder(folder_.path()); }),
              HasSubstr("b/2.png: is a folder inside a class"));
  fs::create_directory(folder_ / "x.tar");
  const std::string spec = "shards:" + folder_.path().string();
  EXPECT_THAT(error_of<UserError>([&] { open_shards(spec); }), HasSubstr("x.tar: is a folder"));
  fs::remove(folder_ / "x.tar");
  fs::create_symlink("nowhere", folder_ / "x.tar");
  EXPECT_THAT(error_of<UserError>([&] { open_shards(spec); }), HasSubstr("x.tar: cannot be read"));
}

}  // namespace data_damaged_images_test
}  // namespace hetpipe
