// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

// IDX files, the format of MNIST and its relatives: four bytes of magic, big-endian sizes, bytes.
// Plain or gzipped. http://yann.lecun.com/exdb/mnist/ describes it.
namespace hetpipe {

struct IdxImages {
  std::int64_t size = 0;  // of the whole file, however many were read
  int height = 0;
  int width = 0;
  std::vector<std::uint8_t> pixels;  // (N, H, W)
};

inline constexpr std::int64_t kAllImages = -1;

// UserError when the magic is not 0x803, the file is cut short, or data follows the last image.
// With `at_most` images the rest of the file is neither read nor checked.
IdxImages read_idx_images(const std::filesystem::path& path, std::int64_t at_most = kAllImages);
// UserError as above, with magic 0x801.
std::vector<std::int32_t> read_idx_labels(const std::filesystem::path& path);

// spec: "fashion-mnist" (the folder of Debian's package dataset-fashion-mnist), or a folder with
// {train,t10k}-{images-idx3,labels-idx1}-ubyte, each plain or with ".gz". A folder's classes are
// those of its train labels. Labels are read, and counts compared, whichever parts are kept.
// Throws UserError naming file, what was found and what to do.
Dataset load_dataset(const std::string& spec, Split split, Parts parts);

}  // namespace hetpipe
