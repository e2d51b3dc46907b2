// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/hdf5_dataset.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/error.h"
#include "runtime/store/open_dataset.h"
#include "tests/unit/store/written_hdf5.h"

namespace hetpipe {
namespace hdf5_dataset_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Files are made with HDF5 alone, as any other program would.
class Hdf5Dataset : public WrittenHdf5 {
 protected:
  void add_bytes(const std::string& file, const std::string& group, int count) {
    std::vector<std::uint8_t> pixels;
    for (int i = 0; i < count * 6; ++i) pixels.push_back(static_cast<std::uint8_t>(i));
    add(file, group + "images", H5T_NATIVE_UINT8, {static_cast<hsize_t>(count), 2, 1, 3}, pixels);
  }
  void add_labels(const std::string& file, const std::string& group,
                  const std::vector<std::int64_t>& labels) {
    add(file, group + "labels", H5T_NATIVE_INT64, {labels.size()}, labels);
  }
  Dataset load(const std::string& file, Split split = Split::train, Parts parts = Parts::both) {
    return load_hdf5_dataset((folder_ / file).string(), split, parts);
  }
  std::string error(const std::string& file, Split split = Split::train) {
    return error_of<UserError>([&] { load(file, split); });
  }
};

TEST_F(Hdf5Dataset, KnowsWhetherThereAreTestSamples) {
  add_bytes("alone.h5", "", 2);
  add_labels("alone.h5", "", {0, 1});
  add_bytes("both.h5", "train/", 2);
  add_labels("both.h5", "train/", {0, 1});
  add_bytes("both.h5", "test/", 1);
  add_labels("both.h5", "test/", {1});
  const std::string alone = (folder_ / "alone.h5").string();
  EXPECT_FALSE(has_test_split(alone));
  EXPECT_TRUE(has_test_split((folder_ / "both.h5").string()));
  EXPECT_TRUE(has_test_split(alone + "," + alone));
  EXPECT_TRUE(has_test_split("fashion-mnist"));
}

TEST_F(Hdf5Dataset, LoadsBytes) {
  add_bytes("a.h5", "", 3);
  add_labels("a.h5", "", {1, 0, 4});
  const Dataset data = load("a.h5");
  EXPECT_EQ(data.size, 3);
  EXPECT_EQ(data.height, 2);
  EXPECT_EQ(data.width, 1);
  EXPECT_EQ(data.channels, 3);
  EXPECT_EQ(data.classes, 5);
  EXPECT_THAT(data.labels, ElementsAre(1, 0, 4));
  std::vector<float> image(6);
  data.copy_sample({0, 1}, image.data());
  EXPECT_EQ(image[0], 6 / 255.f);
  EXPECT_EQ(image[5], 11 / 255.f);
}

// More than is held in memory, most of it never written: 20,000 images of 100 x 100.
TEST_F(Hdf5Dataset, LargeOnesStayInTheirFile) {
  const hsize_t count = 20'000;
  const auto add_sparse = [&](const std::string& file, hid_t type, const auto& image) {
    const std::string path = (folder_ / file).string();
    const hid_t f = H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t shape[] = {count, 100, 100, 1}, chunk[] = {10, 100, 100, 1};
    const hsize_t one[] = {1, 100, 100, 1};
    const hid_t space = H5Screate_simple(4, shape, nullptr);
    const hid_t memory = H5Screate_simple(4, one, nullptr);
    const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(layout, 4, chunk);
    const hid_t data = H5Dcreate2(f, "images", type, space, H5P_DEFAULT, layout, H5P_DEFAULT);
    for (const hsize_t row : {hsize_t{3}, count - 1}) {
      const hsize_t start[] = {row, 0, 0, 0};
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start, nullptr, one, nullptr);
      ASSERT_GE(H5Dwrite(data, type, memory, space, H5P_DEFAULT, image.data()), 0);
    }
    H5Dclose(data);
    H5Pclose(layout);
    H5Sclose(memory);
    H5Sclose(space);
    ASSERT_GE(H5Fclose(f), 0);
    std::vector<std::int64_t> labels(count);
    labels[count - 1] = 4;
    add_labels(file, "", labels);
  };
  std::vector<std::uint8_t> bytes(10'000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  add_sparse("bytes.h5", H5T_NATIVE_UINT8, bytes);
  const Dataset data = load("bytes.h5");
  EXPECT_TRUE(data.pixels.empty());
  EXPECT_EQ(data.sample_type(), SampleType::pixels);
  EXPECT_EQ(data.size, 20'000);
  EXPECT_EQ(data.labels_of(19'999), std::vector{4});
  std::vector<float> image(10'000);
  for (const std::int64_t index : {3, 19'999}) {
    data.copy_sample({0, index}, image.data());
    for (std::size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(image[i], bytes[i] / 255.f);
  }
  data.copy_sample({0, 15'000}, image.data());
  EXPECT_THAT(image, ::testing::Each(0));
  EXPECT_FALSE(load("bytes.h5", Split::train, Parts::labels).has_images());

  std::vector<float> values(10'000, .5f);
  values[9'999] = NAN;
  add_sparse("floats.h5", H5T_NATIVE_FLOAT, values);
  EXPECT_THAT(error("floats.h5"), HasSubstr("image 3 holds nan"));  // among the first
}

TEST_F(Hdf5Dataset, LoadsFloatsWithoutChannels) {
  add<float>("a.h5", "images", H5T_NATIVE_FLOAT, {2, 1, 2}, {-1.5f, 2, 3, 4});
  add<std::uint8_t>("a.h5", "labels", H5T_NATIVE_UINT8, {2}, {0, 1});
  const Dataset data = load("a.h5");
  EXPECT_EQ(data.channels, 1);
  std::vector<float> image(2);
  data.copy_sample({0, 0}, image.data());
  EXPECT_THAT(image, ElementsAre(-1.5f, 2));
}

// As PyTorch keeps images; the other way round they would be 3 rows of 4 columns with 5 channels.
TEST_F(Hdf5Dataset, ChannelsFirstIsReadAsSuch) {
  std::vector<std::uint8_t> first, last;
  for (int n = 0; n < 2; ++n) {
    for (int c = 0; c < 3; ++c) {
      for (int p = 0; p < 20; ++p) first.push_back(static_cast<std::uint8_t>(60 * n + 20 * c + p));
    }
    for (int p = 0; p < 20; ++p) {
      for (int c = 0; c < 3; ++c) last.push_back(static_cast<std::uint8_t>(60 * n + 20 * c + p));
    }
  }
  add("first.h5", "images", H5T_NATIVE_UINT8, {2, 3, 4, 5}, first);
  add("last.h5", "images", H5T_NATIVE_UINT8, {2, 4, 5, 3}, last);
  for (const char* file : {"first.h5", "last.h5"}) add_labels(file, "", {0, 1});
  const Dataset turned = load("first.h5");
  EXPECT_THAT(turned.sample_shape(), ElementsAre(4, 5, 3));
  EXPECT_EQ(turned.pixels, last);
  EXPECT_THAT(turned.remark, AllOf(HasSubstr("first.h5"), HasSubstr("(2, 3, 4, 5)"),
                                   HasSubstr("read as (N, C, H, W)")));
  EXPECT_EQ(load("last.h5").pixels, last);
  EXPECT_EQ(load("last.h5").remark, "");
  EXPECT_EQ(load("last.h5").fingerprint, turned.fingerprint);

  add("floats.h5", "images", H5T_NATIVE_FLOAT, {1, 1, 2, 2}, std::vector<float>{1, 2, 3, 4});
  add_labels("floats.h5", "", {0});
  EXPECT_THAT(load("floats.h5").sample_shape(), ElementsAre(2, 2, 1));
}

TEST_F(Hdf5Dataset, AnAttributeSaysWhatShapesDoNot) {
  const auto with_layout = [&](const std::string& file, const Shape& shape, const char* layout) {
    hsize_t count = 1;
    for (const hsize_t side : shape) count *= side;
    add(file, "images", H5T_NATIVE_UINT8, shape, std::vector<std::uint8_t>(count));
    add_labels(file, "", std::vector<std::int64_t>(shape[0]));
    if (layout == nullptr) return;
    const hid_t f = H5Fopen((folder_ / file).c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t data = H5Dopen2(f, "images", H5P_DEFAULT);
    const hid_t type = H5Tcopy(H5T_C_S1);  // as h5py writes a str
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    const hid_t space = H5Screate(H5S_SCALAR);
    const hid_t attribute = H5Acreate2(data, "layout", type, space, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Awrite(attribute, type, &layout), 0);
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(data);
    H5Fclose(f);
  };
  with_layout("either.h5", {2, 1, 6, 3}, nullptr);
  EXPECT_THAT(error("either.h5"),
              AllOf(HasSubstr("(2, 1, 6, 3)"), HasSubstr("both (N, H, W, C) and (N, C, H, W)"),
                    HasSubstr("attrs[\"layout\"]")));
  with_layout("last.h5", {2, 1, 6, 3}, "NHWC");
  EXPECT_THAT(load("last.h5").sample_shape(), ElementsAre(1, 6, 3));
  with_layout("first.h5", {2, 1, 6, 3}, "NCHW");
  EXPECT_THAT(load("first.h5").sample_shape(), ElementsAre(6, 3, 1));
  with_layout("many.h5", {2, 3, 4, 5}, "NHWC");
  EXPECT_THAT(load("many.h5").sample_shape(), ElementsAre(3, 4, 5));
  with_layout("wrong.h5", {2, 3, 4, 5}, "CHW");
  EXPECT_THAT(error("wrong.h5"), HasSubstr("layout 'CHW'"));
}

TEST_F(Hdf5Dataset, EitherPartMayBeAbsentAndTheFingerprintStays) {
  add_bytes("a.h5", "", 200);  // more images than the fingerprint reads
  add_labels("a.h5", "", std::vector<std::int64_t>(200, 3));
  const Dataset both = load("a.h5");
  const Dataset images = load("a.h5", Split::train, Parts::images);
  const Dataset labels = load("a.h5", Split::train, Parts::labels);
  EXPECT_EQ(images.pixels, both.pixels);
  EXPECT_FALSE(images.has_labels());
  EXPECT_EQ(labels.labels, both.labels);
  EXPECT_FALSE(labels.has_images());
  EXPECT_EQ(images.fingerprint, both.fingerprint);
  EXPECT_EQ(labels.fingerprint, both.fingerprint);
}

TEST_F(Hdf5Dataset, SplitsAreGroupsOfOneFile) {
  add_bytes("a.h5", "train/", 4);
  add_labels("a.h5", "train/", {0, 1, 2, 3});
  add_bytes("a.h5", "test/", 2);
  add_labels("a.h5", "test/", {1, 1});
  EXPECT_EQ(load("a.h5").size, 4);
  EXPECT_EQ(load("a.h5", Split::test).size, 2);
  EXPECT_EQ(load("a.h5", Split::test).classes, 4);
}

TEST_F(Hdf5Dataset, SplitsAreTwoFiles) {
  add_bytes("a.h5", "", 4);
  add_labels("a.h5", "", {0, 1, 2, 3});
  add_bytes("b.h5", "", 2);
  add_labels("b.h5", "", {1, 1});
  const std::string spec = (folder_ / "a.h5").string() + "," + (folder_ / "b.h5").string();
  EXPECT_EQ(open_dataset(spec, Split::train, Parts::both).size, 4);
  EXPECT_EQ(open_dataset(spec, Split::test, Parts::both).size, 2);
  EXPECT_EQ(open_dataset(spec, Split::test, Parts::both).classes, 4);
  EXPECT_THAT(error("a.h5", Split::test),
              AllOf(HasSubstr("holds no group /test"), HasSubstr("TRAIN.h5,TEST.h5")));
}

TEST_F(Hdf5Dataset, ATextIsOpenedByItsPrefix) {
  write_plain(folder_ / "text.h5", "to be or not to be, that is the question");
  const std::string spec = "text:" + (folder_ / "text.h5").string() + ",T=3";
  EXPECT_TRUE(has_test_split(spec));
  EXPECT_EQ(open_dataset(spec, Split::train, Parts::both).size, 11);
  EXPECT_EQ(open_dataset(spec, Split::test, Parts::both).tokens, 3);
}

TEST_F(Hdf5Dataset, AllShapesAndTypesAreCheckedAtOnce) {
  add<double>("a.h5", "images", H5T_NATIVE_DOUBLE, {2, 2}, {1, 2, 3, 4});
  add<float>("a.h5", "labels", H5T_NATIVE_FLOAT, {2, 1}, {0, 1});
  EXPECT_THAT(error("a.h5"),
              AllOf(HasSubstr("/images holds floating-point numbers of 8 bytes (uint8 or float32"),
                    HasSubstr("/images has shape (2, 2) ((N, H, W, C) or (N, H, W) is needed"),
                    HasSubstr("/labels holds floating-point numbers (integers"),
                    HasSubstr("/labels has shape (2, 1) ((N) is needed")));
}

TEST_F(Hdf5Dataset, SignedBytesAreNoPixels) {
  add<std::int8_t>("a.h5", "images", H5T_NATIVE_INT8, {1, 1, 2}, {1, 2});
  add_labels("a.h5", "", {0});
  EXPECT_THAT(error("a.h5"), HasSubstr("/images holds integers of 1 bytes (uint8"));
}

TEST_F(Hdf5Dataset, CountsMustAgree) {
  add_bytes("a.h5", "", 3);
  add_labels("a.h5", "", {0, 1});
  EXPECT_THAT(error("a.h5"), HasSubstr("/images has shape (3, 2, 1, 3) and /labels has shape (2)"));
}

TEST_F(Hdf5Dataset, LabelsMustBeClasses) {
  add_bytes("a.h5", "train/", 3);
  add_labels("a.h5", "train/", {0, 1, 2});
  add_bytes("a.h5", "test/", 3);
  add_labels("a.h5", "test/", {0, 1, 3});
  EXPECT_THAT(error("a.h5", Split::test), HasSubstr("/test/labels: label 2 is 3 (must be in 0..2"));
  add_bytes("b.h5", "", 2);
  add_labels("b.h5", "", {1, -1});
  EXPECT_THAT(error("b.h5"), HasSubstr("label 1 is -1"));
}

TEST_F(Hdf5Dataset, ImagesMustBeFinite) {
  add<float>("a.h5", "images", H5T_NATIVE_FLOAT, {3, 1, 1}, {0, 1, std::nanf("")});
  add_labels("a.h5", "", {0, 1, 0});
  EXPECT_THAT(error("a.h5"), HasSubstr("image 2 holds nan"));
}

TEST_F(Hdf5Dataset, MissingPartsAreNamed) {
  add_labels("a.h5", "", {0});
  EXPECT_THAT(error("a.h5"), HasSubstr("holds no dataset /images"));
  add_labels("b.h5", "images/", {0});
  add_labels("b.h5", "", {0});
  EXPECT_THAT(error("b.h5"), HasSubstr("/images is a group"));
  EXPECT_THAT(error("c.h5"), HasSubstr("does not exist"));
  write_plain(folder_ / "d.h5", "no HDF5");
  EXPECT_THAT(error("d.h5"), HasSubstr("cannot be opened as an HDF5 file"));
}

}  // namespace hdf5_dataset_test
}  // namespace hetpipe
