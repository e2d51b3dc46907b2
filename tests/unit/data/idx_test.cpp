// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/idx.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace idx_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(value >> shift & 0xff);
  return bytes;
}

// Pixel j of image i is i + j.
std::string image_file(int count, int height = 2, int width = 3) {
  std::string bytes = big_endian(0x803) + big_endian(static_cast<std::uint32_t>(count)) +
                      big_endian(static_cast<std::uint32_t>(height)) +
                      big_endian(static_cast<std::uint32_t>(width));
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < height * width; ++j) bytes += static_cast<char>(i + j);
  }
  return bytes;
}

std::string label_file(const std::vector<int>& labels) {
  std::string bytes = big_endian(0x801) + big_endian(static_cast<std::uint32_t>(labels.size()));
  for (int label : labels) bytes += static_cast<char>(label);
  return bytes;
}

std::string zipped(const std::string& bytes, const fs::path& scratch) {
  gzFile file = gzopen(scratch.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return read_file(scratch);
}

class IdxFolder : public ::testing::Test {
 protected:
  IdxFolder() {
    write("train-images-idx3-ubyte", image_file(4));
    write("train-labels-idx1-ubyte", label_file({0, 2, 1, 2}));
    write("t10k-images-idx3-ubyte", image_file(3));
    write("t10k-labels-idx1-ubyte", label_file({0, 0, 1}));
  }
  void write(const std::string& name, const std::string& bytes) {
    write_plain(folder_ / name, bytes);
  }
  Dataset load(Split split = Split::train, Parts parts = Parts::both) {
    return load_dataset(folder_.path().string(), split, parts);
  }
  std::string error(Split split = Split::train, Parts parts = Parts::both) {
    return error_of<UserError>([&] { load(split, parts); });
  }

  ScratchFolder folder_;
};

// 160 images of 1,000 x 1,000, almost all of it a hole in the file.
TEST_F(IdxFolder, LargeOnesStayInTheirFile) {
  const int count = 160, side = 1000;
  const fs::path images = folder_ / "train-images-idx3-ubyte";
  write("train-images-idx3-ubyte",
        image_file(count, 0, 0).substr(0, 8) + big_endian(side) + big_endian(side));
  write("train-labels-idx1-ubyte", label_file(std::vector<int>(count, 1)));
  fs::resize_file(images, 16 + std::uintmax_t{count} * side * side);
  {
    std::fstream file(images, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(16 + std::streamoff{159} * side * side);
    file << "\x05\x07";
  }
  const Dataset data = load();
  EXPECT_TRUE(data.pixels.empty());
  EXPECT_EQ(data.size, count);
  std::vector<float> image(side * side);
  data.copy_sample({0, 159}, image.data());
  EXPECT_EQ(image[0], 5 / 255.f);
  EXPECT_EQ(image[1], 7 / 255.f);
  EXPECT_EQ(image[2], 0);
  data.copy_sample({0, 158}, image.data());
  EXPECT_EQ(image[0], 0);
  fs::resize_file(images, 15 + std::uintmax_t{count} * side * side);
  EXPECT_THAT(error(), HasSubstr("has 160000015 bytes (its header declares 160000016)"));
}

TEST_F(IdxFolder, Loads) {
  const Dataset data = load();
  EXPECT_EQ(data.size, 4);
  EXPECT_EQ(data.height, 2);
  EXPECT_EQ(data.width, 3);
  EXPECT_EQ(data.channels, 1);
  EXPECT_EQ(data.classes, 3);
  EXPECT_THAT(data.labels, ElementsAre(0, 2, 1, 2));
  std::vector<float> image(6);
  data.copy_sample({0, 3}, image.data());
  EXPECT_THAT(image, ElementsAre(3 / 255.f, 4 / 255.f, 5 / 255.f, 6 / 255.f, 7 / 255.f, 8 / 255.f));
}

TEST_F(IdxFolder, TestSplitHasTheClassesOfTrain) {
  const Dataset data = load(Split::test);
  EXPECT_EQ(data.size, 3);
  EXPECT_EQ(data.classes, 3);
}

TEST_F(IdxFolder, EitherPartMayBeAbsentAndTheFingerprintStays) {
  const Dataset both = load();
  const Dataset images = load(Split::train, Parts::images);
  const Dataset labels = load(Split::train, Parts::labels);
  EXPECT_FALSE(images.has_labels());
  EXPECT_FALSE(labels.has_images());
  EXPECT_EQ(images.pixels, both.pixels);
  EXPECT_EQ(labels.labels, both.labels);
  for (const Dataset& part : {images, labels}) {
    EXPECT_EQ(part.fingerprint, both.fingerprint);
    EXPECT_EQ(part.size, both.size);
    EXPECT_EQ(part.classes, both.classes);
  }
}

TEST_F(IdxFolder, FingerprintSeesEveryChange) {
  const std::uint64_t before = load().fingerprint;
  EXPECT_NE(load(Split::test).fingerprint, before);
  write("train-labels-idx1-ubyte", label_file({0, 2, 2, 1}));
  const std::uint64_t labels = load().fingerprint;
  EXPECT_NE(labels, before);
  std::string images = image_file(4);
  images.back() ^= 1;
  write("train-images-idx3-ubyte", images);
  EXPECT_NE(load().fingerprint, labels);
}

TEST_F(IdxFolder, ZippedIsTheSame) {
  const Dataset plain = load();
  for (const std::string name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}) {
    const std::string bytes = read_file(folder_ / name);
    fs::remove(folder_ / name);
    write(name + ".gz", zipped(bytes, folder_ / "scratch"));
  }
  const Dataset data = load();
  EXPECT_EQ(data.pixels, plain.pixels);
  EXPECT_EQ(data.labels, plain.labels);
  EXPECT_EQ(data.fingerprint, plain.fingerprint);
}

TEST_F(IdxFolder, EveryTruncationIsNoticed) {
  const std::string images = image_file(4);
  for (std::size_t length = 0; length < images.size(); ++length) {
    write("train-images-idx3-ubyte", images.substr(0, length));
    EXPECT_THAT(error(), AllOf(HasSubstr("train-images-idx3-ubyte"), HasSubstr("cut short")))
        << length;
  }
  write("train-images-idx3-ubyte", images);
  const std::string labels = label_file({0, 2, 1, 2});
  for (std::size_t length = 0; length < labels.size(); ++length) {
    write("train-labels-idx1-ubyte", labels.substr(0, length));
    EXPECT_THAT(error(Split::train, Parts::images), HasSubstr("cut short")) << length;
  }
}

TEST_F(IdxFolder, EveryTruncationOfAZippedFileIsNoticed) {
  const std::string bytes = zipped(image_file(4), folder_ / "scratch");
  fs::remove(folder_ / "train-images-idx3-ubyte");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    write("train-images-idx3-ubyte.gz", bytes.substr(0, length));
    EXPECT_THAT(error(), HasSubstr("train-images-idx3-ubyte.gz")) << length;
  }
}

TEST_F(IdxFolder, DamagedZipIsNoticed) {
  std::string bytes = zipped(image_file(4), folder_ / "scratch");
  bytes[bytes.size() - 6] ^= 1;  // its checksum
  fs::remove(folder_ / "train-images-idx3-ubyte");
  write("train-images-idx3-ubyte.gz", bytes);
  EXPECT_THAT(error(), HasSubstr("not a valid gzip file"));
}

TEST_F(IdxFolder, TrailingDataIsNoticed) {
  write("train-images-idx3-ubyte", image_file(4) + "x");
  EXPECT_THAT(error(), HasSubstr("continues after the last of the images"));
  write("train-images-idx3-ubyte", image_file(4));
  write("train-labels-idx1-ubyte", label_file({0, 2, 1, 2}) + "x");
  EXPECT_THAT(error(), HasSubstr("continues after the last of the labels"));
}

TEST_F(IdxFolder, WrongMagicIsNoticed) {
  write("train-images-idx3-ubyte", label_file({0, 2, 1, 2}));
  EXPECT_THAT(error(), HasSubstr("starts with 0x00000801 (an IDX file of images starts with "
                                 "0x00000803)"));
}

TEST_F(IdxFolder, AbsurdSizesAreNoticedBeforeMemoryIsTaken) {
  write("train-images-idx3-ubyte",
        big_endian(0x803) + big_endian(0xffffffff) + big_endian(0xffff) + big_endian(0xffff));
  EXPECT_THAT(error(), HasSubstr("number of images = 4294967295"));
  write("train-images-idx3-ubyte",
        big_endian(0x803) + big_endian(4) + big_endian(0) + big_endian(3));
  EXPECT_THAT(error(), HasSubstr("height = 0"));
}

TEST_F(IdxFolder, CountsMustAgree) {
  write("train-labels-idx1-ubyte", label_file({0, 2, 1}));
  for (Parts parts : {Parts::both, Parts::images, Parts::labels}) {
    EXPECT_THAT(error(Split::train, parts), HasSubstr("holds 3 labels"));
  }
}

TEST_F(IdxFolder, LabelsOutOfRangeAreNoticed) {
  write("t10k-labels-idx1-ubyte", label_file({0, 3, 1}));
  EXPECT_THAT(error(Split::test), HasSubstr("label 1 is 3 (the data set has 3 classes"));
}

TEST_F(IdxFolder, MissingFilesAreNamedTogether) {
  fs::remove(folder_ / "t10k-images-idx3-ubyte");
  fs::remove(folder_ / "t10k-labels-idx1-ubyte");
  EXPECT_THAT(error(Split::test), AllOf(HasSubstr("t10k-images-idx3-ubyte.gz"),
                                        HasSubstr("t10k-labels-idx1-ubyte.gz")));
}

TEST_F(IdxFolder, UnknownNamesSayWhatIsPossible) {
  EXPECT_THAT(
      error_of<UserError>([] { load_dataset("/no/such/folder", Split::train, Parts::both); }),
      AllOf(HasSubstr("does not exist"), HasSubstr("'fashion-mnist'")));
  EXPECT_THAT(error_of<UserError>([&] {
                load_dataset((folder_ / "t10k-labels-idx1-ubyte").string(), Split::train,
                             Parts::both);
              }),
              HasSubstr("is not a data set"));
}

TEST(FashionMnist, LoadsOrNamesItsPackage) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist")) {
    EXPECT_THAT(
        error_of<UserError>([] { load_dataset("fashion-mnist", Split::test, Parts::both); }),
        HasSubstr("package dataset-fashion-mnist"));
    GTEST_SKIP() << "Debian's package dataset-fashion-mnist is not installed";
  }
  const Dataset data = load_dataset("fashion-mnist", Split::test, Parts::both);
  EXPECT_EQ(data.size, 10000);
  EXPECT_EQ(data.height, 28);
  EXPECT_EQ(data.width, 28);
  EXPECT_EQ(data.classes, 10);
  std::vector<int> counts(10);
  for (std::int32_t label : data.labels) ++counts[static_cast<std::size_t>(label)];
  EXPECT_EQ(counts, std::vector<int>(10, 1000));
}

}  // namespace idx_test
}  // namespace hetpipe
