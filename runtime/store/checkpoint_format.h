// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/store/checkpoint.h"

// What writer and reader of a checkpoint have in common. Private to this folder.
namespace hetpipe::checkpoint_format {

inline constexpr const char* kFormat = "hetpipe-checkpoint";
inline constexpr std::int64_t kVersion = 2;
inline constexpr const char* kNames = "names";  // dataset of the other datasets' paths
inline constexpr const char* kExact = "exact";  // group, where there is an ExactState
inline constexpr const char* kData = "data";    // group, where there is a TrainedOn
inline constexpr const char* kWorkerMinibatches = "worker_minibatches";  // absent in older files
inline constexpr const char* kRemedy = " Take another checkpoint of this run.";

// How a tensor lies in the file.
struct Entry {
  std::string path;  // "model/conv1/weight", "optimizer/velocity/conv1/weight"
  std::string kind;  // "parameter", "statistic", "slot", "exact"
  const NamedTensor* tensor;
};

// Any bytes as text that HDF5 keeps: two lower-case digits each. Back: nothing where it is no such
// text.
std::string hex_of_bytes(const std::string& bytes);
std::optional<std::string> bytes_of_hex(const std::string& hex);

// Sorted by path. Names that are taken twice or cannot be a path of HDF5 are an internal error.
std::vector<Entry> entries_of(const Checkpoint& checkpoint);

// Every tensor with its path, in no order that means anything.
void for_each_tensor(Checkpoint& checkpoint,
                     const std::function<void(const std::string& path, NamedTensor& tensor)>& act);

}  // namespace hetpipe::checkpoint_format
