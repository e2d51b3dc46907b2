// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/image_source.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/unit/data/made_images.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace image_source_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Records of CIFAR: pixel p of channel c is value + 50*c, but for the first, which is value.
std::string record(const std::string& labels, int value) {
  std::string bytes = labels;
  for (int c = 0; c < 3; ++c) {
    for (int p = 0; p < 1024; ++p) bytes += static_cast<char>(value + 50 * c + (p == 1 ? 7 : 0));
  }
  return bytes;
}

class Cifar : public ::testing::Test {
 protected:
  Cifar() {
    for (int file = 1; file <= 5; ++file) {
      write_plain(folder_ / ("data_batch_" + std::to_string(file) + ".bin"),
                  record(std::string(1, static_cast<char>(file)), file) +
                      record(std::string(1, static_cast<char>(9 - file)), 10 + file));
    }
    write_plain(folder_ / "test_batch.bin", record(std::string(1, '\3'), 99));
  }
  std::string refusal(CifarLabels labels = CifarLabels::ten) {
    return error_of<UserError>([&] { open_cifar(folder_.path(), labels); });
  }
  ScratchFolder folder_;
};

TEST_F(Cifar, TenReadsFiveFilesInOrder) {
  const ImageSources sources = open_cifar(folder_.path(), CifarLabels::ten);
  EXPECT_EQ(sources.classes, 10);
  EXPECT_THAT(sources.class_names, SizeIs(0));
  EXPECT_THAT(sources.train->labels(), ElementsAre(1, 8, 2, 7, 3, 6, 4, 5, 5, 4));
  EXPECT_THAT(sources.test->labels(), ElementsAre(3));
  const Image image = sources.train->read(3);
  EXPECT_EQ(image.height, 32);
  EXPECT_EQ(image.channels, 3);
  EXPECT_THAT(std::vector<int>(image.pixels.begin(), image.pixels.begin() + 6),
              ElementsAre(12, 62, 112, 19, 69, 119));
  EXPECT_THAT(sources.train->name(3), HasSubstr("data_batch_2.bin, record 1"));
}

TEST_F(Cifar, TheArchivesFolderAndNamesAreFound) {
  fs::create_directory(folder_ / "cifar-100-binary");
  const fs::path inner = folder_ / "cifar-100-binary";
  write_plain(inner / "train.bin", record("\x13\x63", 1) + record(std::string("\0\5", 2), 2));
  write_plain(inner / "test.bin", record("\1\2", 3));
  std::string names;
  for (int i = 0; i < 20; ++i) names += "coarse" + std::to_string(i) + "\r\n";
  write_plain(inner / "coarse_label_names.txt", names);
  const ImageSources fine = open_cifar(folder_.path(), CifarLabels::fine);
  EXPECT_EQ(fine.classes, 100);
  EXPECT_THAT(fine.train->labels(), ElementsAre(99, 5));
  const ImageSources coarse = open_cifar(folder_.path(), CifarLabels::coarse);
  EXPECT_EQ(coarse.classes, 20);
  EXPECT_THAT(coarse.train->labels(), ElementsAre(19, 0));
  EXPECT_EQ(coarse.class_names.at(19), "coarse19");
  EXPECT_EQ(coarse.train->read(0).pixels, fine.train->read(0).pixels);
}

TEST_F(Cifar, AllThatIsWrongIsSaidAtOnce) {
  fs::remove(folder_ / "data_batch_2.bin");
  write_plain(folder_ / "data_batch_3.bin", record("\1", 0).substr(0, 3000));
  write_plain(folder_ / "data_batch_4.bin", "");
  write_plain(folder_ / "data_batch_5.bin", record("\1", 0) + record("\xa", 0));
  write_plain(folder_ / "batches.meta.txt", "airplane\nship\n");
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("data_batch_2.bin: does not exist"),
                    HasSubstr("data_batch_3.bin: holds 3000 bytes (records of 3073"),
                    HasSubstr("data_batch_4.bin: holds 0 bytes"),
                    HasSubstr("data_batch_5.bin: record 1 has label 10 (must be in 0..9)"),
                    HasSubstr("batches.meta.txt: names 2 classes (the data set has 10)")));
  EXPECT_THAT(refusal(CifarLabels::fine), HasSubstr("train.bin: does not exist"));
  EXPECT_THAT(
      error_of<UserError>([&] { open_cifar(folder_ / "test_batch.bin", CifarLabels::ten); }),
      AllOf(HasSubstr("is not a folder"), HasSubstr("cifar-10-batches-bin")));
}

class ImageFolder : public ::testing::Test {
 protected:
  void add(const std::string& name, int key = 0) {
    fs::create_directories((folder_ / name).parent_path());
    write_plain(folder_ / name, png_of(made_image(2, 2, 3, key)));
  }
  std::string refusal() {
    return error_of<UserError>([&] { open_image_folder(folder_.path()); });
  }
  ScratchFolder folder_;
};

TEST_F(ImageFolder, ClassesAndImagesAreSorted) {
  add("dog/b.PNG", 1);
  add("dog/a.png", 2);
  add("cat/z.png", 3);
  add("Emu/10.png", 4);
  add("Emu/9.png", 5);
  add(".hidden/x.png");
  add("dog/.DS_Store");
  add("dog/notes.txt");
  add("README");
  const ImageSources sources = open_image_folder(folder_.path());
  EXPECT_THAT(sources.class_names, ElementsAre("Emu", "cat", "dog"));
  EXPECT_EQ(sources.classes, 3);
  EXPECT_EQ(sources.test, nullptr);
  EXPECT_THAT(sources.train->labels(), ElementsAre(0, 0, 1, 2, 2));
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < sources.train->size(); ++i) {
    names.push_back(fs::path(sources.train->name(i)).filename().string());
  }
  EXPECT_THAT(names, ElementsAre("10.png", "9.png", "z.png", "a.png", "b.PNG"));
  EXPECT_EQ(sources.train->read(3).pixels, made_image(2, 2, 3, 2).pixels);
  EXPECT_THAT(sources.ignored, SizeIs(2));
}

TEST_F(ImageFolder, TestTakesTheLabelsOfTrain) {
  add("train/a/1.png");
  add("train/b/1.png");
  add("train/c/1.png");
  add("test/c/1.png");
  add("test/a/1.png");
  const ImageSources sources = open_image_folder(folder_.path());
  EXPECT_THAT(sources.train->labels(), ElementsAre(0, 1, 2));
  EXPECT_THAT(sources.test->labels(), ElementsAre(0, 2));
}

TEST_F(ImageFolder, AllThatIsWrongIsSaidAtOnce) {
  add("train/a/1.png");
  add("train/b/deeper/1.png");
  fs::create_directories(folder_ / "train/empty");
  add("test/a/1.png");
  add("test/z/1.png");
  add("val/a/1.png");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("train/b/deeper: is a folder inside a class"),
                               HasSubstr("train/empty: holds no image"),
                               HasSubstr("test/z: is a class that train/ does not have"),
                               HasSubstr("val: is a folder next to train/")));
}

TEST_F(ImageFolder, WithoutClassesThereIsNothingToImport) {
  EXPECT_THAT(refusal(), HasSubstr("holds no folders"));
  add("lonely/1.png");
  EXPECT_THAT(refusal(), HasSubstr("holds one class, lonely (a classifier needs at least 2)"));
  add("test/1.png");
  EXPECT_THAT(refusal(), HasSubstr("holds test/ but no train/"));
  EXPECT_THAT(error_of<UserError>([&] { open_image_folder(folder_ / "nowhere"); }),
              HasSubstr("nowhere: is not a folder"));
}

TEST_F(ImageFolder, ADamagedImageIsNamed) {
  add("a/1.png");
  add("b/1.png");
  write_plain(folder_ / "b/1.png", "no image");
  const ImageSources sources = open_image_folder(folder_.path());
  EXPECT_THAT(error_of<UserError>([&] { sources.train->read(1); }),
              HasSubstr("b/1.png: is neither JPEG nor PNG"));
}

}  // namespace image_source_test
}  // namespace hetpipe
