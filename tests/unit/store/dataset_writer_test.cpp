// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/dataset_writer.h"

#include <gmock/gmock.h>
#include <hdf5.h>

#include "base/error.h"
#include "base/file.h"
#include "runtime/store/hdf5_dataset.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace dataset_writer_test {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

class DatasetFile : public ::testing::Test {
 protected:
  fs::path path(const std::string& name = "a.h5") { return folder_ / name; }
  // Images of 2x1x3 whose bytes count on from image to image.
  void fill(DatasetWriter& writer, Split split, const std::vector<std::int32_t>& labels) {
    writer.begin(split, 2, 1, 3, labels);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      std::vector<std::uint8_t> image;
      for (std::size_t j = 0; j < 6; ++j) image.push_back(static_cast<std::uint8_t>(i * 6 + j));
      writer.append(image);
    }
  }
  void write(const std::string& name) {
    DatasetWriter writer(path(name));
    fill(writer, Split::train, {0, 2, 1});
    fill(writer, Split::test, {1, 1});
    writer.commit(std::vector<std::string>{"ant", "bee", "caterpillar"});
  }
  std::size_t files() {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }
  ScratchFolder folder_;
};

TEST_F(DatasetFile, IsReadBack) {
  write("a.h5");
  EXPECT_EQ(files(), 1u);
  const Dataset train = load_hdf5_dataset(path().string(), Split::train, Parts::both);
  EXPECT_EQ(train.size, 3);
  EXPECT_EQ(train.height, 2);
  EXPECT_EQ(train.width, 1);
  EXPECT_EQ(train.channels, 3);
  EXPECT_EQ(train.classes, 3);
  EXPECT_THAT(train.labels, ElementsAre(0, 2, 1));
  EXPECT_EQ(train.pixels[17], 17);
  const Dataset test = load_hdf5_dataset(path().string(), Split::test, Parts::both);
  EXPECT_EQ(test.size, 2);
  EXPECT_THAT(test.labels, ElementsAre(1, 1));
}

TEST_F(DatasetFile, HoldsTheClassNames) {
  write("a.h5");
  const hid_t file = H5Fopen(path().c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t names = H5Dopen2(file, "class_names", H5P_DEFAULT);
  const hid_t type = H5Dget_type(names);
  ASSERT_EQ(H5Tget_size(type), 11u);
  std::string text(33, 'x');
  EXPECT_GE(H5Dread(names, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()), 0);
  EXPECT_EQ(text, std::string("ant") + std::string(8, '\0') + "bee" + std::string(8, '\0') +
                      "caterpillar");
  H5Tclose(type);
  H5Dclose(names);
  H5Fclose(file);
}

TEST_F(DatasetFile, TheSameImagesGiveTheSameBytes) {
  write("a.h5");
  write("b.h5");
  EXPECT_EQ(read_file(path("a.h5")), read_file(path("b.h5")));
}

// More than one piece of 16 MiB, whose border no image crosses evenly.
TEST_F(DatasetFile, LargeSplitsAreWrittenInPieces) {
  constexpr int kSide = 1000;
  const std::vector<std::int32_t> labels(19, 0);
  {
    DatasetWriter writer(path());
    writer.begin(Split::train, kSide, kSide, 1, labels);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      writer.append(std::vector<std::uint8_t>(kSide * kSide, static_cast<std::uint8_t>(i + 1)));
    }
    writer.commit({});
  }
  const Dataset data = load_hdf5_dataset(path().string(), Split::train, Parts::both);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    EXPECT_EQ(data.pixels[i * kSide * kSide], i + 1);
    EXPECT_EQ(data.pixels[(i + 1) * kSide * kSide - 1], i + 1);
  }
}

TEST_F(DatasetFile, WithoutCommitNothingIsLeftAndTheOldFileStays) {
  write_plain(path(), "the old file");
  {
    DatasetWriter writer(path());
    fill(writer, Split::train, {0, 1});
    EXPECT_EQ(files(), 2u);
  }
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(read_file(path()), "the old file");
}

TEST_F(DatasetFile, AFolderThatIsNotThereIsTheMachinesFailure) {
  EXPECT_THROW(DatasetWriter(folder_ / "nowhere/a.h5"), SystemError);
}

}  // namespace dataset_writer_test
}  // namespace hetpipe
