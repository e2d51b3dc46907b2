// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/store/checkpoint.h"

// What writer and reader of a checkpoint have in common. Private to this folder.
namespace hetpipe::checkpoint_format {

inline constexpr const char* kFormat = "hetpipe-checkpoint";
inline constexpr std::int64_t kVersion = 1;
inline constexpr const char* kNames = "names";  // dataset of the other datasets' paths
inline constexpr const char* kExact = "exact";  // group, where there is an ExactState

// How a tensor lies in the file.
struct Entry {
  std::string path;  // "model/conv1/weight", "optimizer/velocity/conv1/weight"
  std::string kind;  // "parameter", "statistic", "slot", "exact"
  const NamedTensor* tensor;
};

// Sorted by path. Names that are taken twice or cannot be a path of HDF5 are a broken invariant.
std::vector<Entry> entries_of(const Checkpoint& checkpoint);

// The seal: one line after the last byte of HDF5, with the number of bytes before it and their
// FNV-1a. HDF5 ignores what follows its end. Without it a flipped bit could make HDF5 crash before
// any checksum inside the file is seen: strings lie in its global heap, which has none.
std::string seal_of(std::string_view image);

enum class Seal { missing, present };
// Whether the file ends in a seal for its length. Reads the last line alone.
Seal find_seal(const std::filesystem::path& path);
// Whether the whole file is what was sealed. Reads it all.
bool is_intact(const std::filesystem::path& path);

}  // namespace hetpipe::checkpoint_format
