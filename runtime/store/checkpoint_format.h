// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/store/checkpoint.h"

// What writer and reader of a checkpoint have in common. Private to this folder.
namespace hetpipe::checkpoint_format {

inline constexpr const char* kFormat = "hetpipe-checkpoint";
inline constexpr std::int64_t kVersion = 1;

// How a tensor lies in the file.
struct Entry {
  std::string path;  // "model/conv1/weight", "optimizer/velocity/conv1/weight"
  std::string kind;  // "parameter", "statistic", "slot"
  const NamedTensor* tensor;
  std::uint64_t checksum;  // FNV-1a of the values' bytes, little endian, as the file stores them
};

// Sorted by path. Names that are taken twice or cannot be a path of HDF5 are a broken invariant.
std::vector<Entry> entries_of(const Checkpoint& checkpoint);

// FNV-1a of the sorted paths, each ended by a newline.
std::uint64_t names_checksum(const std::vector<Entry>& entries);
// FNV-1a of every attribute of the checkpoint and of every tensor's path, kind, order, shape and
// checksum: nothing that a reader uses is left out.
std::uint64_t contents_checksum(const Checkpoint& checkpoint, const std::vector<Entry>& entries);

}  // namespace hetpipe::checkpoint_format
