// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint/files.h"

#include "base/error.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// The folder of checkpoints that a folder means; a run's directory holds one.
fs::path folder_of(const fs::path& folder) {
  const fs::path inside = folder / "checkpoints";
  std::error_code code;
  return fs::is_directory(inside, code) ? inside : folder;
}

[[noreturn]] void refuse(const fs::path& folder, const std::string& what) {
  throw UserError(folder.string(), "holds no " + what +
                                       " (checkpoints are named checkpoint-00000012.h5). Give a "
                                       "checkpoint, or the directory of a run that wrote one.");
}

}  // namespace

fs::path one_checkpoint(const std::string& word) {
  std::error_code code;
  if (!fs::is_directory(word, code)) return word;
  const fs::path folder = folder_of(word);
  const auto newest = newest_checkpoint(folder);
  if (!newest) refuse(folder, "complete checkpoint");
  return *newest;
}

std::vector<fs::path> all_checkpoints(const std::string& word) {
  std::error_code code;
  if (!fs::is_directory(word, code)) return {word};
  const fs::path folder = folder_of(word);
  std::vector<fs::path> files = list_checkpoints(folder);
  if (files.empty()) refuse(folder, "checkpoint");
  return files;
}

std::vector<PathTensor> tensors_of(const Checkpoint& checkpoint) {
  std::vector<PathTensor> all;
  const auto add = [&](const std::string& group, const char* kind,
                       const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& tensor : tensors) {
      all.push_back({group + "/" + tensor.name, kind, &tensor});
    }
  };
  add("model", "parameter", checkpoint.parameters);
  add("model", "statistic", checkpoint.statistics);
  for (const auto& [slot, tensors] : checkpoint.slots) add("optimizer/" + slot, "slot", tensors);
  if (checkpoint.exact) add("exact", "exact", checkpoint.exact->tensors);
  return all;
}

std::int64_t value_count(const NamedTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t side : tensor.shape) count *= side;
  return count;
}

void check_rest(const std::vector<fs::path>& files, const std::string& intact) {
  Problems problems;
  for (const fs::path& file : files) {
    for (const Problem& problem : verify_checkpoint(file)) {
      problems.add(problem.where, problem.text + " " + intact);
    }
  }
  problems.throw_if_any();
}

}  // namespace hetpipe
