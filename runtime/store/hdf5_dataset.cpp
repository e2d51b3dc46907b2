// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/hdf5_dataset.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "runtime/store/hdf5.h"
#include "runtime/store/hdf5_split.h"
#include "runtime/store/stored_rows.h"

namespace hetpipe {
namespace {

constexpr hsize_t kLargestSide = 1 << 16;
constexpr hsize_t kMostValues = hsize_t{1} << 40;  // of one data set; more is no sound file
constexpr int kMostClasses = 1'000'000;
constexpr std::int64_t kLabelsAtOnce = 1 << 20;
constexpr const char* kWriteAgain = ". Write the file again.";

constexpr const char* kLayout = "layout";  // attribute of the images: "NHWC" or "NCHW"
enum class ImageLayout { channels_last, channels_first };

// One split's images and labels, in one group of one file.
class SplitReader {
 public:
  SplitReader(const std::string& path, std::string group)
      : path_(path), group_(std::move(group)), file_(open_data_file(path)) {}

  // Checks shapes, types and counts; fills the data set's shape and size.
  void describe(Dataset& dataset) {
    Problems problems;
    images_ = open("images", problems);
    labels_ = open("labels", problems);
    problems.throw_if_any();
    const std::vector<hsize_t> shape = check_images(problems);
    const std::vector<hsize_t> labels = check_labels(problems);
    if (!shape.empty() && !labels.empty() && shape[0] != labels[0]) {
      problems.add(path_, format("dataset %s has shape %s and %s has shape %s (each image needs "
                                 "one label)",
                                 name("images").c_str(), hdf5::shape_text(shape).c_str(),
                                 name("labels").c_str(), hdf5::shape_text(labels).c_str()) +
                              kWriteAgain);
    }
    problems.throw_if_any();
    layout_ = layout_of(shape);
    const std::size_t rows = layout_ == ImageLayout::channels_first ? 2 : 1;
    dataset.size = static_cast<std::int64_t>(shape[0]);
    dataset.height = static_cast<int>(shape[rows]);
    dataset.width = static_cast<int>(shape[rows + 1]);
    dataset.channels = shape.size() == 3 ? 1 : static_cast<int>(shape[rows == 2 ? 1 : 3]);
    if (layout_ == ImageLayout::channels_first) {
      dataset.remark =
          format("%s: dataset %s has shape %s and is read as (N, C, H, W)", path_.c_str(),
                 name("images").c_str(), hdf5::shape_text(shape).c_str());
    }
  }

  void count_chunks() const { hdf5::look_up_chunks(images_.get(), reading("images")); }

  // classes: the labels' limit, nothing where they define it.
  std::vector<std::int32_t> read_labels(const Dataset& dataset, std::optional<int> classes) {
    const std::int64_t limit = classes.value_or(kMostClasses);
    std::vector<std::int32_t> labels;
    labels.reserve(static_cast<std::size_t>(dataset.size));
    std::vector<std::int64_t> stored;
    for (hdf5::Rows rows; rows.first < dataset.size; rows.first += rows.count) {
      rows.count = std::min(kLabelsAtOnce, dataset.size - rows.first);
      stored.resize(static_cast<std::size_t>(rows.count));
      hdf5::read_rows(labels_.get(), rows, H5T_NATIVE_INT64, stored.data(), reading("labels"));
      const auto wrong = std::find_if(stored.begin(), stored.end(), [&](std::int64_t label) {
        return label < 0 || label >= limit;
      });
      if (wrong == stored.end()) {
        labels.insert(labels.end(), stored.begin(), stored.end());
        continue;
      }
      throw UserError(
          path_,
          format("dataset %s: label %lld is %lld (must be in 0..%lld%s)", name("labels").c_str(),
                 static_cast<long long>(rows.first + (wrong - stored.begin())),
                 static_cast<long long>(*wrong), static_cast<long long>(limit - 1),
                 classes ? ", the classes of the train labels" : "") +
              kWriteAgain);
    }
    return labels;
  }

  bool is_bytes() const { return is_bytes_; }

  // Fills pixels or values with these images.
  void read_images(Dataset& dataset, hdf5::Rows rows) {
    const auto values = static_cast<std::size_t>(rows.count * dataset.sample_values());
    void* out = nullptr;
    if (is_bytes_) {
      dataset.pixels.resize(values);
      out = dataset.pixels.data();
    } else {
      dataset.values.resize(values);
      out = dataset.values.data();
    }
    hdf5::read_rows(images_.get(), rows, is_bytes_ ? H5T_NATIVE_UINT8 : H5T_NATIVE_FLOAT, out,
                    reading("images"));
    if (layout_ == ImageLayout::channels_first) {
      dataset.pixels = channels_last(dataset, dataset.pixels);
      dataset.values = channels_last(dataset, dataset.values);
    }
    check_finite(dataset, rows.first);
  }

 private:
  std::string name(const char* dataset) const { return group_ + "/" + dataset; }
  hdf5::Doing reading(const char* dataset) const {
    return {path_, "reading dataset " + name(dataset)};
  }

  hdf5::Id open(const char* dataset, Problems& problems) {
    const std::string full = name(dataset);
    if (!hdf5::has_link(file_.get(), full)) {
      problems.add(
          path_, "holds no dataset " + full + " (a data set has images and labels)" + kWriteAgain);
      return {};
    }
    hdf5::Id object = hdf5::own(H5Oopen(file_.get(), full.c_str(), H5P_DEFAULT), reading(dataset));
    if (H5Iget_type(object.get()) != H5I_DATASET) {
      problems.add(path_, full + " is a group (a dataset is needed)" + kWriteAgain);
    }
    return object;
  }

  std::vector<hsize_t> check_images(Problems& problems) {
    const hdf5::Doing doing = reading("images");
    const hdf5::Id type = hdf5::own(H5Dget_type(images_.get()), doing);
    const H5T_class_t kind = H5Tget_class(type.get());
    const std::size_t bytes = H5Tget_size(type.get());
    is_bytes_ = kind == H5T_INTEGER && bytes == 1 && H5Tget_sign(type.get()) == H5T_SGN_NONE;
    if (!is_bytes_ && !(kind == H5T_FLOAT && bytes == sizeof(float))) {
      problems.add(path_, format("dataset %s holds %s of %zu bytes (uint8 or float32 is needed)",
                                 name("images").c_str(), kind_text(kind), bytes) +
                              kWriteAgain);
    }
    std::vector<hsize_t> shape = hdf5::shape_of(images_.get(), doing);
    const bool sound =
        (shape.size() == 3 || shape.size() == 4) && shape[0] <= kMostValues &&
        std::all_of(shape.begin(), shape.end(), [](hsize_t s) { return s > 0; }) &&
        std::all_of(shape.begin() + 1, shape.end(), [](hsize_t s) { return s <= kLargestSide; });
    if (!sound) {
      problems.add(path_, format("dataset %s has shape %s ((N, H, W, C) or (N, H, W) is needed, "
                                 "no side 0, height, width and channels at most %llu)",
                                 name("images").c_str(), hdf5::shape_text(shape).c_str(),
                                 static_cast<unsigned long long>(kLargestSide)) +
                              kWriteAgain);
      return {};
    }
    return shape;
  }

  std::vector<hsize_t> check_labels(Problems& problems) {
    const hdf5::Doing doing = reading("labels");
    const hdf5::Id type = hdf5::own(H5Dget_type(labels_.get()), doing);
    const H5T_class_t kind = H5Tget_class(type.get());
    if (kind != H5T_INTEGER) {
      problems.add(path_, format("dataset %s holds %s (integers are needed)",
                                 name("labels").c_str(), kind_text(kind)) +
                              kWriteAgain);
    }
    std::vector<hsize_t> shape = hdf5::shape_of(labels_.get(), doing);
    if (shape.size() != 1 || shape[0] == 0) {
      problems.add(path_, format("dataset %s has shape %s ((N) is needed, one label per image)",
                                 name("labels").c_str(), hdf5::shape_text(shape).c_str()) +
                              kWriteAgain);
      return {};
    }
    return shape;
  }

  // By the attribute of the images, else by their shape, which shows it where either the channels
  // or the columns cannot be what they would be in the other layout.
  ImageLayout layout_of(const std::vector<hsize_t>& shape) const {
    const hdf5::Doing doing = reading("images");
    const std::string place = "dataset " + name("images") + " has ";
    if (hdf5::has_attribute(images_.get(), kLayout, doing)) {
      const std::string layout = hdf5::read_text(images_.get(), kLayout, doing);
      if (layout == "NHWC") return ImageLayout::channels_last;
      if (layout == "NCHW" && shape.size() == 4) return ImageLayout::channels_first;
      throw UserError(path_,
                      place + "layout '" + layout.substr(0, 20) + "' and shape " +
                          hdf5::shape_text(shape) +
                          " (NHWC, or with four sides NCHW, is needed). Correct the attribute.");
    }
    const auto like_channels = [](hsize_t side) { return side == 1 || side == 3; };
    if (shape.size() == 3 || !like_channels(shape[1])) return ImageLayout::channels_last;
    if (!like_channels(shape[3])) return ImageLayout::channels_first;
    throw UserError(path_,
                    place + "shape " + hdf5::shape_text(shape) +
                        " (both (N, H, W, C) and (N, C, H, W) could be meant). Say which with the "
                        "attribute 'layout' of the dataset, \"NHWC\" or \"NCHW\", as in h5py: "
                        "file[\"" +
                        name("images") + "\"].attrs[\"layout\"] = \"NHWC\".");
  }

  // Samples (C, H, W) as (H, W, C).
  template <class Value>
  static std::vector<Value> channels_last(const Dataset& dataset,
                                          const std::vector<Value>& samples) {
    std::vector<Value> turned(samples.size());
    const auto channels = static_cast<std::size_t>(dataset.channels);
    const auto pixels =
        static_cast<std::size_t>(dataset.height) * static_cast<std::size_t>(dataset.width);
    for (std::size_t first = 0; first < samples.size(); first += pixels * channels) {
      for (std::size_t c = 0; c < channels; ++c) {
        for (std::size_t p = 0; p < pixels; ++p) {
          turned[first + p * channels + c] = samples[first + c * pixels + p];
        }
      }
    }
    return turned;
  }

  static const char* kind_text(H5T_class_t kind) {
    if (kind == H5T_INTEGER) return "integers";
    if (kind == H5T_FLOAT) return "floating-point numbers";
    if (kind == H5T_STRING) return "strings";
    return "neither integers nor floating-point numbers,";
  }

  void check_finite(const Dataset& dataset, std::int64_t first) const {
    const auto wrong = std::find_if(dataset.values.begin(), dataset.values.end(),
                                    [](float value) { return !std::isfinite(value); });
    if (wrong == dataset.values.end()) return;
    throw UserError(path_, format("dataset %s: image %lld holds %g (training cannot use it)",
                                  name("images").c_str(),
                                  static_cast<long long>(first + (wrong - dataset.values.begin()) /
                                                                     dataset.sample_values()),
                                  static_cast<double>(*wrong)) +
                               kWriteAgain);
  }

  std::string path_;
  std::string group_;  // "" is the top
  hdf5::Id file_;
  hdf5::Id images_;
  hdf5::Id labels_;
  bool is_bytes_ = false;
  ImageLayout layout_ = ImageLayout::channels_last;
};

SplitReader split_reader(const std::string& spec, Split wanted) {
  const SplitPlace place = find_split(spec, wanted);
  return {place.path, place.group};
}

int train_classes(const std::string& spec) {
  SplitReader train = split_reader(spec, Split::train);
  Dataset shape;
  train.describe(shape);
  const std::vector<std::int32_t> labels = train.read_labels(shape, std::nullopt);
  return 1 + *std::max_element(labels.begin(), labels.end());
}

Dataset load(const std::string& spec, Split wanted, Parts parts) {
  Dataset dataset;
  dataset.name = spec;
  std::optional<int> classes;
  if (wanted == Split::test) classes = train_classes(spec);
  const auto reader = std::make_shared<SplitReader>(split_reader(spec, wanted));
  reader->describe(dataset);
  std::vector<std::int32_t> labels = reader->read_labels(dataset, classes);
  dataset.classes = classes ? *classes : 1 + *std::max_element(labels.begin(), labels.end());

  take_samples(dataset, spec, reader->is_bytes() ? SampleType::pixels : SampleType::floats, parts,
               std::move(labels),
               [reader](Dataset& some, hdf5::Rows rows) { reader->read_images(some, rows); });
  return dataset;
}

void read_for_trial(const std::string& spec, Split split, bool whole) {
  if (whole) {
    kept_in_child(load(spec, split, Parts::both));
    return;
  }
  SplitReader reader = split_reader(spec, split);
  Dataset dataset;
  reader.describe(dataset);
  reader.read_labels(dataset, std::nullopt);
  reader.count_chunks();
}

void try_once(const std::string& spec) {
  try_splits_once("images of ", spec,
                  [&](Split split, bool whole) { read_for_trial(spec, split, whole); });
}

}  // namespace

bool has_hdf5_test_split(const std::string& spec) {
  if (spec.find(',') != std::string::npos) return true;
  const hdf5::Session session;
  try_once(spec);
  return reading_data(spec, [&] { return hdf5::has_link(open_data_file(spec).get(), "test"); });
}

Dataset load_hdf5_dataset(const std::string& spec, Split wanted, Parts parts) {
  const hdf5::Session session;
  try_once(spec);
  return reading_data(spec, [&] { return load(spec, wanted, parts); });
}

}  // namespace hetpipe
