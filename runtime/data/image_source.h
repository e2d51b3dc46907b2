// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "runtime/data/image.h"

// Labelled images as they lie in files, read one at a time and by any thread, so that a data set
// need not fit into memory.
namespace hetpipe {

class ImageSource {
 public:
  virtual ~ImageSource() = default;
  const std::vector<std::int32_t>& labels() const { return labels_; }  // (N)
  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  // Image `index` as it is stored. UserError naming the file when it cannot be read.
  virtual StoredImage fetch(std::int64_t index) const = 0;
  virtual std::string name(std::int64_t index) const = 0;  // for messages
  virtual std::int64_t held_bytes() const = 0;             // of memory, without the labels
  // Decoded. UserError beside fetch()'s when it is damaged.
  Image read(std::int64_t index) const { return decoded(fetch(index), name(index)); }

 protected:
  std::vector<std::int32_t> labels_;
};

struct ImageSources {
  std::unique_ptr<ImageSource> train;
  std::unique_ptr<ImageSource> test;           // null: none
  int classes = 0;                             // labels lie in [0, classes)
  std::vector<std::string> class_names;        // by label; empty: not known
  std::vector<std::filesystem::path> ignored;  // files that are not images
  std::string remark;                          // one line for the log; empty: none
};

// The binary version of CIFAR (Krizhevsky 2009): `folder` holds data_batch_1.bin to
// data_batch_5.bin and test_batch.bin, or train.bin and test.bin, or a folder with the name that
// the archive gives it. Records are one label byte (CIFAR-100: the coarse one of 20, then the fine
// one of 100) and 3x32x32 bytes, channel by channel. Class names come from batches.meta.txt,
// fine_label_names.txt or coarse_label_names.txt where they are. All files are read at once.
// UserError with all problems: missing files, sizes that are not whole records, labels out of
// range.
enum class CifarLabels { ten, fine, coarse };
ImageSources open_cifar(const std::filesystem::path& folder, CifarLabels labels);

// Whether the name ends in .jpg, .jpeg or .png, in any case.
bool is_image_name(const std::filesystem::path& path);
// The first image found in a folder, its folders and theirs, of those that are looked at; empty:
// none.
std::filesystem::path find_image(const std::filesystem::path& folder);

// One folder per class, classes and images in the order of their names (bytes), which must end in
// .jpg, .jpeg or .png in any case; other files are listed as ignored, names that begin with a dot
// passed over. With train/ the classes are folders in there and, for the test split, in test/ or
// val/, which may lack some. UserError with all that is wrong: no classes, a class without images,
// folders within classes, a class of test/ that train/ does not have.
ImageSources open_image_folder(const std::filesystem::path& folder);

// Whether it is a folder with folders of images, and without IDX files.
bool is_image_folder(const std::filesystem::path& folder);
// Its test/ or val/; empty: it has neither.
std::filesystem::path test_folder(const std::filesystem::path& folder);

}  // namespace hetpipe
