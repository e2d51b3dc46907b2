// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/store/checkpoint.h"

// The checkpoint that an argument names: a file, or the newest complete one of a folder
// of checkpoints or of a run's directory.
namespace hetpipe {

// UserError when a folder holds none.
std::filesystem::path one_checkpoint(const std::string& word);
// The file, or every checkpoint of the folder, complete or not; newest first.
std::vector<std::filesystem::path> all_checkpoints(const std::string& word);

// Every tensor by its path in the file: "model/conv1/weight", "optimizer/velocity/conv1/weight".
struct PathTensor {
  std::string path;
  std::string kind;  // "parameter", "statistic", "slot", "exact"
  const NamedTensor* tensor;
};
std::vector<PathTensor> tensors_of(const Checkpoint& checkpoint);
std::int64_t value_count(const NamedTensor& tensor);  // by its shape

// After what a command wanted of the files was read: UserError where anything else in them is
// damaged, which other commands would meet. `intact`: a sentence on what was read.
void check_rest(const std::vector<std::filesystem::path>& files, const std::string& intact);

}  // namespace hetpipe
