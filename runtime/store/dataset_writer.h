// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/dataset.h"

namespace hetpipe {

// A data set file that load_hdf5_dataset reads: groups /train and /test with images (N, H, W, C)
// as bytes and labels (N) as int32, and class_names at the top. Written to a temporary file
// (base/temporary_file.h), which commit() syncs and renames; without it nothing is left. The same
// input gives the same bytes: no times are stored. SystemError naming the file when writing fails.
class DatasetWriter {
 public:
  explicit DatasetWriter(const std::filesystem::path& path);
  ~DatasetWriter();
  DatasetWriter(const DatasetWriter&) = delete;
  DatasetWriter& operator=(const DatasetWriter&) = delete;

  // Ends the split before and begins another, of as many images as labels.
  void begin(Split split, int height, int width, int channels,
             std::span<const std::int32_t> labels);
  // The split's next image, (H, W, C).
  void append(std::span<const std::uint8_t> image);
  // By label; may be empty. Every split must hold all its images.
  void commit(std::span<const std::string> class_names);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hetpipe
