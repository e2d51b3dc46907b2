// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/transforms.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "runtime/data/hue.h"
#include "runtime/data/image_dataset.h"
#include "tests/unit/data/made_images.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace data_transforms_test {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Image counted(int height, int width) {
  Image image{height, width, 1, {}};
  for (int i = 0; i < height * width; ++i) {
    image.pixels.push_back(static_cast<std::uint8_t>(i * 37));
  }
  return image;
}

// What Pillow 12 gives for the same bytes: image.resize((width, height), BILINEAR, box=...).
TEST(Resample, HasPillowsBits) {
  const Image image = counted(6, 7);
  EXPECT_THAT(resampled(image, {0, 0, 6, 7}, 3, 4).pixels,
              ElementsAre(21, 79, 147, 205, 27, 85, 153, 211, 32, 90, 158, 216));
  EXPECT_THAT(resampled(image, {.5, 1.25, 5.25, 5.25}, 4, 3).pixels,
              ElementsAre(64, 125, 190, 68, 129, 194, 72, 133, 198, 76, 137, 202));
  EXPECT_THAT(resampled(image, {1, 2, 3, 3}, 5, 6).pixels,
              ElementsAre(67, 85, 104, 122, 141, 159, 69, 87, 106, 124, 143, 161, 71, 89, 108, 126,
                          145, 163, 73, 91, 110, 128, 147, 165, 75, 93, 112, 130, 149, 167));
  EXPECT_THAT(resampled(image, {0, 0, 6, 7}, 6, 3).pixels,
              ElementsAre(32, 111, 190, 35, 114, 193, 38, 117, 196, 41, 120, 199, 44, 123, 202, 47,
                          126, 205));
}

// A part of a JPEG has the bits of the whole one, wherever its blocks begin.
TEST(PartOfJpeg, HasTheBitsOfTheWhole) {
  for (const int channels : {1, 3}) {
    const Image whole = decode_image(jpeg_of(made_image(75, 130, channels)), "x");
    const StoredImage stored = jpeg_of(made_image(75, 130, channels));
    EXPECT_EQ(size_of(stored, "x"), (ImageSize{75, 130}));
    for (std::uint64_t i = 0; i < 200; ++i) {
      Draws draws(i, {}, 0);
      const int h = 1 + draws.below(75), w = 1 + draws.below(130);
      const Box box{static_cast<double>(draws.below(76 - h)),
                    static_cast<double>(draws.below(131 - w)), static_cast<double>(h),
                    static_cast<double>(w)};
      const ImagePart part = part_of(stored, "x", box, {h, w});
      const Image got = resampled(part.image, part.box, 9, 11);
      ASSERT_EQ(got.pixels, resampled(whole, box, 9, 11).pixels) << i;
    }
  }
}

// At half the size and less only what is needed is computed.
TEST(PartOfJpeg, IsScaledWhereThatIsEnough) {
  const StoredImage stored = jpeg_of(flat_image(64, 96, {10, 200, 90}));
  for (const auto& [least, height] : {std::pair{64, 64}, {33, 64}, {32, 32}, {16, 16}, {5, 8}}) {
    const ImagePart part = part_of(stored, "x", {0, 0, 64, 96}, {least, least});
    EXPECT_EQ(part.image.height, height);
    EXPECT_EQ(part.box.height, height);
    const Image out = resampled(part.image, part.box, 4, 4);
    for (std::size_t i = 0; i < out.pixels.size(); i += 3) {
      EXPECT_NEAR(out.pixels[i], 10, 2);
      EXPECT_NEAR(out.pixels[i + 1], 200, 2);
    }
  }
}

// docs/transforms.py prints the golden file; the test sample_order compares the two.
TEST(Transforms, DrawAsTheReferenceInPythonDoes) {
  std::ifstream golden(HETPIPE_SOURCE_DIR "/tests/golden/transforms.txt");
  std::uint64_t seed = 0;
  ImageSize size;
  int compared = 0;
  for (std::string line; std::getline(golden, line);) {
    std::istringstream words(line);
    if (line.starts_with("# ")) {
      words.ignore(2) >> seed >> size.height >> size.width;
      continue;
    }
    SampleKey key;
    Crop wanted;
    bool flips = false;
    words >> key.epoch >> key.index >> wanted.top >> wanted.left >> wanted.height >> wanted.width >>
        flips;
    Draws crop(seed, key, 0), flip(seed, key, 1);
    const Crop got = drawn_crop(size, {}, crop);
    EXPECT_EQ(std::tie(got.top, got.left, got.height, got.width),
              std::tie(wanted.top, wanted.left, wanted.height, wanted.width))
        << line;
    EXPECT_EQ(flip.happens(.5), flips) << line;
    ++compared;
  }
  EXPECT_EQ(compared, 55);
}

Image apply(const std::string& text, const Image& image, std::uint64_t seed = 1,
            SampleKey key = {}) {
  return transformed(image, "x", image.channels, parse_transforms(text, "--t"), seed, key, {7});
}

TEST(Transforms, MoveAndCutPixels) {
  const Image image{2, 3, 1, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(apply("", image).pixels, image.pixels);
  EXPECT_THAT(apply("RandomHorizontalFlip(1)", image).pixels, ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(apply("RandomHorizontalFlip(p=0)", image).pixels, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(apply("RandomVerticalFlip(p=1)", image).pixels, ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_THAT(apply("CenterCrop((2,1))", image).pixels, ElementsAre(2, 5));
  EXPECT_THAT(apply("CenterCrop((4, 3))", image).pixels,
              ElementsAre(0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0));
  EXPECT_THAT(apply("Pad(1), CenterCrop((2, 3))", image).pixels, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(apply("Grayscale(3)", image).channels, 3);
  EXPECT_THAT(apply("RandomErasing(1, scale=(0.4, 0.4), ratio=(1.5, 1.5))", counted(20, 20)).pixels,
              ::testing::Contains(7).Times(::testing::Ge(140)));
}

// Over many epochs every place is cut from, and sizes stay.
TEST(Transforms, RandomCropReachesEveryPlace) {
  std::set<std::vector<std::uint8_t>> seen;
  for (std::int64_t epoch = 0; epoch < 400; ++epoch) {
    const Image out = apply("RandomCrop(5, padding=1)", counted(5, 5), 3, {epoch, 4});
    EXPECT_EQ(out.height, 5);
    seen.insert(out.pixels);
    EXPECT_EQ(out.pixels, apply("RandomCrop(5, padding=1)", counted(5, 5), 3, {epoch, 4}).pixels);
  }
  EXPECT_EQ(seen.size(), 9u);
}

// What Pillow 13 gives: to HSV, the shift added to H, and back; CRC-32 of all bytes.
TEST(Transforms, HueHasPillowsBits) {
  Image lattice{1, 18 * 18 * 18, 3, {}};
  for (int i = 0; i < 18 * 18 * 18; ++i) {
    for (const int part : {i / 324, i / 18 % 18, i % 18}) {
      lattice.pixels.push_back(static_cast<std::uint8_t>(15 * part));
    }
  }
  for (const auto& [by, sum] :
       {std::pair{0, 0x5161021aU}, {1, 0xdb572ec7U}, {85, 0x7c3cd1caU}, {200, 0x1604513eU}}) {
    Image turned = lattice;
    turn_hue(turned, static_cast<std::uint8_t>(by));
    EXPECT_EQ(::crc32(0, turned.pixels.data(), static_cast<unsigned>(turned.pixels.size())), sum)
        << by;
  }
  Image gray{1, 2, 1, {3, 200}};
  turn_hue(gray, 100);
  EXPECT_THAT(gray.pixels, ElementsAre(3, 200));
}

// int(factor * 255), both ways, each step as often as the others.
TEST(Transforms, ColorJitterTurnsHueByWhatItDraws) {
  const Image red = flat_image(1, 1, {255, 0, 0});
  std::set<std::vector<std::uint8_t>> seen, allowed;
  for (int by = -25; by <= 25; ++by) {
    Image turned = red;
    turn_hue(turned, static_cast<std::uint8_t>(by));
    allowed.insert(turned.pixels);
  }
  for (std::int64_t e = 0; e < 2000; ++e) {
    const Image out = apply("ColorJitter(hue=0.1)", red, 1, {e, 0});
    seen.insert(out.pixels);
    EXPECT_EQ(out.pixels, apply("ColorJitter(hue=0.1)", red, 1, {e, 0}).pixels);
  }
  EXPECT_EQ(seen, allowed);
}

TEST(Transforms, ColorJitterKeepsGreyWhereItCannotChange) {
  const Image gray = flat_image(3, 3, {90, 90, 90});
  EXPECT_THAT(apply("ColorJitter(0, 0, 1)", gray).pixels, Each(90));       // saturation of a grey
  EXPECT_THAT(apply("ColorJitter(contrast=0.9)", gray).pixels, Each(90));  // of one colour
  std::set<int> seen;
  for (std::int64_t e = 0; e < 50; ++e) {
    seen.insert(apply("ColorJitter(0.5)", gray, 1, {e, 0}).pixels[0]);
  }
  EXPECT_GE(*seen.begin(), 45);
  EXPECT_LE(*seen.rbegin(), 135);
  EXPECT_GT(seen.size(), 20u);
}

TEST(Transforms, SizesAreKnownBefore) {
  const auto after = [](const char* text, std::optional<ImageSize> size) {
    return size_after(parse_transforms(text, "--t"), size);
  };
  EXPECT_EQ(after("Resize(256), CenterCrop(224)", {}), (ImageSize{224, 224}));
  EXPECT_EQ(after("Resize(256)", {}), std::nullopt);
  EXPECT_EQ(after("Resize(256)", ImageSize{375, 500}), (ImageSize{256, 341}));
  EXPECT_EQ(after("Resize((20, 30)), Pad(2)", {}), (ImageSize{24, 34}));
  EXPECT_EQ(after("RandomHorizontalFlip", ImageSize{3, 4}), (ImageSize{3, 4}));
}

TEST(Transforms, SaysWhatIsWrong) {
  const auto error = [](const char* text) {
    return error_of<UserError>([&] { parse_transforms(text, "--train-transforms"); });
  };
  EXPECT_THAT(error("RandomResizeCrop(224)"),
              AllOf(HasSubstr("--train-transforms"), HasSubstr("RandomResizedCrop")));
  EXPECT_THAT(error("Resize"), HasSubstr("Resize needs size"));
  EXPECT_THAT(error("Resize(-3)"), HasSubstr("Resize: size needs a number of pixels"));
  EXPECT_THAT(error("Resize(3, 4)"), HasSubstr("too many arguments"));
  EXPECT_THAT(error("RandomResizedCrop(3, scale=(2, 1))"), HasSubstr("scale needs"));
  EXPECT_THAT(error("RandomResizedCrop(3, size=4)"), HasSubstr("too many"));
  EXPECT_THAT(error("RandomErasing(q=1)"), HasSubstr("argument"));
  EXPECT_THAT(error("ColorJitter(hue=0.6)"), HasSubstr("hue needs a number from 0 to 0.5"));
  EXPECT_THAT(error("Pad(2"), HasSubstr("a closing bracket is needed"));
  EXPECT_THAT(error("Pad(2) Pad(3)"), HasSubstr("a comma is needed"));
  EXPECT_THAT(error("3"), HasSubstr("the name of a transform is needed"));
  EXPECT_THAT(error("RandomHorizontalFlip(1.5)"), HasSubstr("a probability"));
}

class ImageDataset : public ::testing::Test {
 protected:
  // Two classes of three images.
  ImageDataset() {
    for (const char* name : {"a", "b"}) {
      for (int i = 0; i < 3; ++i) {
        const auto folder = folder_ / "train" / name;
        std::filesystem::create_directories(folder);
        write_plain(folder / (std::to_string(i) + ".png"),
                    png_of(made_image(20, 30, 3, i + (*name == 'a' ? 0 : 10))));
      }
    }
  }
  Dataset open(const ImageRules& rules, Parts parts = Parts::both) const {
    ImageSources sources = open_image_folder(folder_.path());
    return image_dataset(std::move(sources.train), sources.classes, "x", rules, Split::train,
                         parts);
  }
  static std::vector<std::byte> read(const Dataset& data, SampleKey key) {
    std::vector<std::byte> sample(static_cast<std::size_t>(data.sample_values()));
    data.copy_stored(key, sample.data());
    return sample;
  }
  ScratchFolder folder_;
};

TEST_F(ImageDataset, OfAFolder) {
  const Dataset data = open({});
  EXPECT_TRUE(is_image_folder(folder_.path()));
  EXPECT_THAT(data.sample_shape(), ElementsAre(20, 30, 3));
  EXPECT_THAT(data.labels, ElementsAre(0, 0, 0, 1, 1, 1));
  const Image second = made_image(20, 30, 3, 11);
  EXPECT_TRUE(std::ranges::equal(read(data, {0, 4}), std::as_bytes(std::span(second.pixels))));
  const Dataset labels = open({}, Parts::labels);
  EXPECT_FALSE(labels.has_images());
  EXPECT_EQ(labels.fingerprint, data.fingerprint);
  ImageRules rules;
  rules.train = parse_transforms("RandomResizedCrop(8)", "");
  const Dataset cropped = open(rules);
  EXPECT_THAT(cropped.sample_shape(), ElementsAre(8, 8, 3));
  EXPECT_EQ(read(cropped, {2, 1}), read(cropped, {2, 1}));
  EXPECT_NE(read(cropped, {2, 1}), read(cropped, {3, 1}));
  rules.scale = parse_pixel_scale("0.5/0.5", "--normalize");
  EXPECT_THAT(error_of<UserError>([&] { open(rules); }), HasSubstr("has 1 channels"));
}

TEST_F(ImageDataset, DamageIsNamedOrSkipped) {
  write_plain(folder_ / "train" / "b" / "1.png", "not an image");
  write_plain(folder_ / "train" / "a" / "2.png", png_of(made_image(20, 31, 3, 1)));
  ImageRules rules;
  const Dataset strict = open(rules);
  EXPECT_THAT(error_of<UserError>([&] { read(strict, {0, 4}); }), HasSubstr("b/1.png"));
  EXPECT_THAT(error_of<UserError>([&] {
                read(strict, {0, 2});
              }),
              AllOf(HasSubstr("a/2.png"), HasSubstr("20 x 31 pixels (others are 20 x 30)")));
  rules.skip_damaged = 1;
  const Dataset lenient = open(rules);
  EXPECT_EQ(read(lenient, {0, 4}), read(lenient, {0, 5}));  // the next of its class
  EXPECT_EQ(read(lenient, {1, 4}), read(lenient, {0, 5}));
  EXPECT_THAT(error_of<UserError>([&] {
                read(lenient, {0, 2});
              }),
              AllOf(HasSubstr("--skip-damaged: 1 was exceeded"), HasSubstr("a/2.png")));
}

// Pixels in memory take the same way.
TEST_F(ImageDataset, OfPixelsInMemory) {
  Dataset data;
  data.name = "x";
  data.height = 2;
  data.width = 2;
  data.channels = 1;
  data.size = 2;
  data.classes = 2;
  data.pixels = {1, 2, 3, 4, 5, 6, 7, 8};
  data.labels = {0, 1};
  ImageRules rules;
  rules.train = parse_transforms("Pad(1), RandomHorizontalFlip(1)", "");
  rules.scale = parse_pixel_scale("0.5/0.25", "--normalize");
  const Dataset changed = with_transforms(data, rules, Split::train, Parts::both);
  EXPECT_THAT(changed.sample_shape(), ElementsAre(4, 4, 1));
  std::vector<float> values(16);
  changed.copy_sample({0, 1}, values.data());
  EXPECT_FLOAT_EQ(values[0], -2);
  EXPECT_FLOAT_EQ(values[5], (6 / 255.f - .5f) / .25f);
  EXPECT_FLOAT_EQ(values[6], (5 / 255.f - .5f) / .25f);
  data.pixels.clear();
  data.values.resize(8);
  EXPECT_THAT(error_of<UserError>([&] { with_transforms(data, rules, Split::train, Parts::both); }),
              HasSubstr("is for images of bytes"));
}

TEST(PixelScales, AreNamedOrGiven) {
  EXPECT_EQ(parse_pixel_scale("none", "").channels, 0);
  EXPECT_EQ(parse_pixel_scale("imagenet", "").channels, 3);
  const PixelScale given = parse_pixel_scale("0.1,0.2,0.3/1,2,3", "");
  EXPECT_FLOAT_EQ(given.mean[2], .3f);
  EXPECT_FLOAT_EQ(given.deviation[1], 2);
  for (const char* wrong : {"", "x", "1", "1/0", "1,2/3", "1/-1", "1,2,3,4,5/1,2,3,4,5", "1/1/1"}) {
    EXPECT_THAT(error_of<UserError>([&] { parse_pixel_scale(wrong, "--normalize"); }),
                HasSubstr("is no normalisation"))
        << wrong;
  }
}

}  // namespace data_transforms_test
}  // namespace hetpipe
