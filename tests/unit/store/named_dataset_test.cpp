// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/named_dataset.h"

#include <gmock/gmock.h>

#include <bit>

#include "base/masked_tokens.h"
#include "tests/unit/store/written_hdf5.h"

namespace hetpipe {
namespace named_dataset_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NamedDataset : public WrittenHdf5 {
 protected:
  Dataset load(const SampleFormat& format, Parts parts = Parts::both) {
    return load_named_dataset((folder_ / "a.h5").string(), Split::train, parts, format);
  }
  std::string error(const SampleFormat& format) {
    return error_of<UserError>([&] { load(format); });
  }
  static std::vector<float> sample(const Dataset& data, std::int64_t index) {
    std::vector<float> values(static_cast<std::size_t>(data.sample_values()));
    data.copy_sample({0, index}, values.data());
    return values;
  }
  static std::vector<float> numbers(const Dataset& data, std::int64_t index) {
    std::vector<float> values;
    for (const std::int32_t bits : data.labels_of(index)) {
      values.push_back(std::bit_cast<float>(bits));
    }
    return values;
  }

  // Tokens and features, to classes.
  const SampleFormat kTwo{.inputs = {{"tokens", {2}, true}, {"features", {3}}},
                          .labels = {{.name = "labels", .classes = 4}},
                          .sample_shape = {5}};
};

TEST_F(NamedDataset, PutsInputsInARow) {
  add<std::int32_t>("a.h5", "tokens", H5T_NATIVE_INT32, {2, 2}, {1, 2, 3, 4});
  add<double>("a.h5", "features", H5T_NATIVE_DOUBLE, {2, 3}, {.5, 1.5, 2.5, 3.5, 4.5, 5.5});
  add<std::int64_t>("a.h5", "labels", H5T_NATIVE_INT64, {2, 1}, {3, -100});
  const Dataset data = load(kTwo);
  EXPECT_EQ(data.size, 2);
  EXPECT_THAT(data.sample_shape(), ElementsAre(5));
  EXPECT_THAT(sample(data, 1), ElementsAre(3, 4, 3.5f, 4.5f, 5.5f));
  EXPECT_THAT(data.labels, ElementsAre(3, kNoLabel));
  EXPECT_TRUE(data.skips);
  EXPECT_EQ(data.classes, 4);
  EXPECT_EQ(load(kTwo, Parts::labels).fingerprint, data.fingerprint);
  EXPECT_FALSE(load(kTwo, Parts::labels).has_images());
  EXPECT_FALSE(load(kTwo, Parts::images).has_labels());
}

// (C, H, W) of two channels, 1 x 2 pixels.
const SampleFormat kImage{.inputs = {{"x", {2, 1, 2}}},
                          .labels = {{.name = "labels", .shape = {2, 1, 2}, .numbers = true}},
                          .sample_shape = {1, 2, 2}};

TEST_F(NamedDataset, ChannelsOfImagesLieInnermost) {
  add<std::uint8_t>("a.h5", "images", H5T_NATIVE_UINT8, {1, 2, 1, 2}, {0, 51, 102, 255});
  add<float>("a.h5", "labels", H5T_NATIVE_FLOAT, {1, 2, 1, 2}, {1, 2, 3, 4});
  const Dataset data = load(kImage);
  EXPECT_THAT(sample(data, 0), ElementsAre(0, 102 / 255.f, 51 / 255.f, 1));
  EXPECT_THAT(numbers(data, 0), ElementsAre(1, 3, 2, 4));
  EXPECT_TRUE(data.number_labels);
  EXPECT_EQ(data.pixels.size(), 4u);
}

TEST_F(NamedDataset, ImagesMayHaveTheirChannelsLast) {
  add<float>("a.h5", "x", H5T_NATIVE_FLOAT, {1, 1, 2, 2}, {0, 1, 2, 3});
  add<float>("a.h5", "labels", H5T_NATIVE_FLOAT, {1, 1, 2, 2}, {4, 5, 6, 7});
  EXPECT_THAT(sample(load(kImage), 0), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(numbers(load(kImage), 0), ElementsAre(4, 5, 6, 7));
}

TEST_F(NamedDataset, LabelsMayBeElementsOfAnInput) {
  SampleFormat next{.inputs = {{"tokens", {3}, true}}, .labels = {}, .sample_shape = {3}};
  next.labels = {{.name = "tokens", .shape = {3}, .classes = 9, .from = {1, 2, -1}},
                 {.name = "kind", .classes = 2}};
  add<std::uint16_t>("a.h5", "tokens", H5T_NATIVE_UINT16, {2, 3}, {1, 2, 3, 4, 5, 6});
  add<std::uint8_t>("a.h5", "kind", H5T_NATIVE_UINT8, {2}, {0, 1});
  const Dataset data = load(next);
  EXPECT_THAT(data.labels, ElementsAre(2, 3, kNoLabel, 0, 5, 6, kNoLabel, 1));
  EXPECT_EQ(data.labels_per_sample, 4);
}

TEST_F(NamedDataset, RefusesWhatTheModelDoesNotRead) {
  add<float>("a.h5", "tokens", H5T_NATIVE_FLOAT, {2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(error(kTwo), AllOf(HasSubstr("no dataset /features"), HasSubstr("(N, 3)"),
                                 HasSubstr("no dataset /labels")));
  add<float>("a.h5", "features", H5T_NATIVE_FLOAT, {2, 2}, {1, 2, 3, 4});
  add<std::int64_t>("a.h5", "labels", H5T_NATIVE_INT64, {3}, {3, 4, 0});
  EXPECT_THAT(error(kTwo), AllOf(HasSubstr("/tokens"), HasSubstr("integers")));
  SampleFormat other = kTwo;
  other.inputs[0].tokens = false;
  EXPECT_THAT(error(other), AllOf(HasSubstr("/features"), HasSubstr("(2, 2)")));
  other.inputs[1].shape = {2};
  other.sample_shape = {4};
  EXPECT_THAT(error(other), AllOf(HasSubstr("/labels has 3 samples"), HasSubstr("/tokens has 2")));
}

TEST_F(NamedDataset, RefusesLabelsThatAreNoClasses) {
  add<std::int64_t>("a.h5", "tokens", H5T_NATIVE_INT64, {2, 2}, {1, 2, 3, 4});
  add<float>("a.h5", "features", H5T_NATIVE_FLOAT, {2, 3}, {1, 2, 3, 4, 5, 6});
  add<std::int64_t>("a.h5", "labels", H5T_NATIVE_INT64, {2}, {0, 4});
  EXPECT_THAT(error(kTwo), AllOf(HasSubstr("label 4 in sample 1"), HasSubstr("0..3")));
}

TEST_F(NamedDataset, ManyLabelsStayInTheirFile) {
  constexpr hsize_t kSize = 9000, kEach = 4096;  // 141 MiB as int32
  const SampleFormat format{.inputs = {{"x", {1}}},
                            .labels = {{.name = "labels", .shape = {kEach}, .classes = 4}},
                            .sample_shape = {1}};
  add<float>("a.h5", "x", H5T_NATIVE_FLOAT, {kSize, 1}, {});
  add<std::uint8_t>("a.h5", "labels", H5T_NATIVE_UINT8, {kSize, kEach}, {});
  std::vector<std::uint8_t> row(kEach, 3);
  row[7] = 1;
  write_row("a.h5", "labels", 5000, row);
  std::uint64_t fingerprint = 0;
  {  // which holds the file open
    const Dataset data = load(format);
    EXPECT_TRUE(data.labels.empty());
    EXPECT_TRUE(data.has_labels());
    EXPECT_EQ(data.labels_per_sample, 4096);
    EXPECT_EQ(data.labels_of(5000), std::vector<std::int32_t>(row.begin(), row.end()));
    EXPECT_EQ(data.labels_of(4999), std::vector<std::int32_t>(kEach, 0));
    EXPECT_FALSE(load(format, Parts::images).has_labels());
    fingerprint = data.fingerprint;
    EXPECT_EQ(load(format, Parts::images).fingerprint, fingerprint);
  }
  row[7] = 4;
  write_row("a.h5", "labels", 5000, row);
  EXPECT_THAT(error_of<UserError>([&] { load(format).labels_of(5000); }),
              AllOf(HasSubstr("label 4 in sample 5000"), HasSubstr("0..3")));
  row[7] = 1;
  write_row("a.h5", "labels", kSize - 1, row);
  EXPECT_NE(load(format).fingerprint, fingerprint);
}

}  // namespace named_dataset_test
}  // namespace hetpipe
