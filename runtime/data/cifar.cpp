// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/data/image_source.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 32;
constexpr std::size_t kPixels = std::size_t{kSide} * kSide;

// One of the three ways to read CIFAR.
struct Variant {
  const char* folder;  // inside of the archive
  std::vector<std::string> train;
  std::string test;
  const char* names;
  std::size_t label_bytes;
  std::size_t label_at;
  int classes;

  std::size_t record() const { return label_bytes + 3 * kPixels; }
};

Variant variant_of(CifarLabels labels) {
  if (labels == CifarLabels::ten) {
    return {"cifar-10-batches-bin",
            {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
             "data_batch_5.bin"},
            "test_batch.bin",
            "batches.meta.txt",
            1,
            0,
            10};
  }
  const bool fine = labels == CifarLabels::fine;
  return {"cifar-100-binary",
          {"train.bin"},
          "test.bin",
          fine ? "fine_label_names.txt" : "coarse_label_names.txt",
          2,
          fine ? std::size_t{1} : 0,
          fine ? 100 : 20};
}

class CifarSource final : public ImageSource {
 public:
  explicit CifarSource(const Variant& variant) : variant_(variant) {}

  // Adds a file's records, or what is wrong with it.
  void add(const fs::path& path, Problems& problems) {
    if (!fs::is_regular_file(path)) {
      problems.add(
          path.string(),
          "does not exist or is not a file (the binary version of the data set contains it). "
          "Fetch and unpack the binary version, and give its folder as --input.");
      return;
    }
    std::string bytes = read_file(path);
    if (bytes.empty() || bytes.size() % variant_.record() != 0) {
      problems.add(path.string(),
                   format("holds %zu bytes (records of %zu are expected: %zu of labels and 3x32x32 "
                          "pixels). The file is cut short or of another format: fetch it again.",
                          bytes.size(), variant_.record(), variant_.label_bytes));
      return;
    }
    const std::size_t records = bytes.size() / variant_.record();
    for (std::size_t r = 0; r < records; ++r) {
      const int label =
          static_cast<unsigned char>(bytes[r * variant_.record() + variant_.label_at]);
      if (label >= variant_.classes) {
        problems.add(path.string(), format("record %zu has label %d (must be in 0..%d). The file "
                                           "is damaged or of another format: fetch it again.",
                                           r, label, variant_.classes - 1));
        return;
      }
      labels_.push_back(label);
      places_.push_back({files_.size(), r});
    }
    files_.push_back({path.string(), std::move(bytes)});
  }

  StoredImage fetch(std::int64_t index) const override {
    const auto [file, record] = places_[static_cast<std::size_t>(index)];
    const char* planes =
        files_[file].bytes.data() + record * variant_.record() + variant_.label_bytes;
    Image image{kSide, kSide, 3, std::vector<std::uint8_t>(3 * kPixels)};
    for (std::size_t p = 0; p < kPixels; ++p)
      for (std::size_t c = 0; c < 3; ++c)
        image.pixels[p * 3 + c] = static_cast<std::uint8_t>(planes[c * kPixels + p]);
    return image;
  }
  std::string name(std::int64_t index) const override {
    const auto [file, record] = places_[static_cast<std::size_t>(index)];
    return format("%s, record %zu", files_[file].path.c_str(), record);
  }
  std::int64_t held_bytes() const override {
    std::size_t bytes = places_.size() * sizeof(Place);
    for (const File& file : files_) bytes += file.bytes.size();
    return static_cast<std::int64_t>(bytes);
  }

 private:
  struct File {
    std::string path;
    std::string bytes;
  };
  struct Place {
    std::size_t file;
    std::size_t record;
  };
  Variant variant_;
  std::vector<File> files_;
  std::vector<Place> places_;
};

std::vector<std::string> class_names(const fs::path& path, int classes, Problems& problems) {
  if (!fs::is_regular_file(path)) return {};
  std::vector<std::string> names;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (static_cast<int>(names.size()) == classes) return names;
  problems.add(path.string(), format("names %zu classes (the data set has %d). Fetch the file "
                                     "again, or remove it to do without names.",
                                     names.size(), classes));
  return {};
}

}  // namespace

ImageSources open_cifar(const fs::path& given, CifarLabels labels) {
  const Variant variant = variant_of(labels);
  if (!fs::is_directory(given)) {
    throw UserError(given.string(), std::string("is not a folder (the unpacked files of the binary "
                                                "version are read). Unpack the archive, and give "
                                                "its folder ") +
                                        variant.folder + ".");
  }
  const fs::path inner = given / variant.folder;
  const fs::path folder = fs::is_directory(inner) ? inner : given;
  Problems problems;
  auto train = std::make_unique<CifarSource>(variant);
  for (const std::string& file : variant.train) train->add(folder / file, problems);
  auto test = std::make_unique<CifarSource>(variant);
  test->add(folder / variant.test, problems);
  ImageSources sources;
  sources.classes = variant.classes;
  sources.class_names = class_names(folder / variant.names, variant.classes, problems);
  problems.throw_if_any();
  sources.train = std::move(train);
  sources.test = std::move(test);
  return sources;
}

}  // namespace hetpipe
