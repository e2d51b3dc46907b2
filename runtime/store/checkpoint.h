// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/ids.h"

// A checkpoint: what a training resumes from, on any plan and under any system. A plain value,
// and one HDF5 file per value (docs/checkpoint.md), readable with h5py.
namespace hetpipe {

// The order of a tensor that lies as PyTorch's module of its name has it.
inline constexpr const char* kTorchOrder = "torch";

struct NamedTensor {
  std::string name;                 // "conv1/weight": layer, parameter; group and dataset names
  std::vector<std::int64_t> shape;  // as stated by `order`
  std::vector<float> values;        // row-major
  std::string order;                // "OIHW", "in,out"; empty where there is nothing to state
  bool operator==(const NamedTensor&) const = default;
};

// The position in the global stream of samples: positions [0, consumed) are part of the weights.
struct SamplerState {
  std::uint64_t seed = 0;
  std::int64_t dataset_size = 0;
  std::uint64_t dataset_fingerprint = 0;
  std::int64_t consumed = 0;  // samples, over all epochs

  std::int64_t epoch() const { return dataset_size > 0 ? consumed / dataset_size : 0; }
  bool operator==(const SamplerState&) const = default;
};

// What a bit-identical continuation under the same plan, system and build needs beyond the rest:
// the state of every virtual worker's stages and of the shards, as the runtime names it. In the
// file: group /exact, numbers as its attributes, tensors as datasets below it.
struct ExactState {
  std::map<std::string, std::int64_t> numbers;  // "build", "plan": hashes; "origin_label" ...
  std::vector<NamedTensor> tensors;             // "worker-0/stage-1/base", flat
  bool operator==(const ExactState&) const = default;
};

// What a model was made for: whoever uses it after training needs no data to make it again. In the
// file: attributes of the group /data, and its dataset class_names.
struct TrainedOn {
  std::vector<std::int64_t> sample_shape;  // (H, W, C), (T), ...
  std::int64_t classes = 0;                // 0: labels were numbers
  std::string vocabulary{};                // of a text by the character: the byte of each token
  std::vector<std::string> class_names{};  // by label; empty: not known
  bool operator==(const TrainedOn&) const = default;
};

struct Checkpoint {
  std::string model;                    // name
  std::uint64_t model_fingerprint = 0;  // of layers and shapes
  std::string system;                   // that wrote it; any may read it
  std::string precision = "float32";
  // Counted over all runs of the training, whatever their plans. Of all virtual workers, and of one
  // (of that with most; absent in files of builds that did not count it).
  std::int64_t minibatches = 0;
  std::optional<std::int64_t> worker_minibatches{};
  Label label = 0;  // waves that the weights contain
  SamplerState sampler;
  std::string optimizer;            // "sgd-momentum"
  std::int64_t optimizer_step = 0;  // updates of one virtual worker, over all runs
  std::vector<NamedTensor> parameters;
  std::vector<NamedTensor> statistics;                    // running means and variances
  std::map<std::string, std::vector<NamedTensor>> slots;  // "velocity": mean over virtual workers
  std::optional<ExactState> exact;
  std::optional<TrainedOn> trained_on{};  // absent in files of builds that did not store it

  // Where it is absent, the step was one of each minibatch.
  std::int64_t minibatches_of_worker() const { return worker_minibatches.value_or(optimizer_step); }
  bool operator==(const Checkpoint&) const = default;
};

// Replaces `path` only when the new file is complete and on disk. SystemError when it cannot be
// written (no space left): what was there before stays, and no temporary file is left behind. May
// run next to other users of the store: it blocks them only during layout, not while it writes.
void write_checkpoint(const std::filesystem::path& path, const Checkpoint& checkpoint);

// Whether what only a bit-identical continuation needs is read (and verified) too.
enum class WithExact { no, yes };

// Tensors come sorted by name. What is read is verified: UserError naming file, dataset and remedy
// when the file is cut short, changed, incomplete, or of another format or version.
Checkpoint read_checkpoint(const std::filesystem::path& path, WithExact exact = WithExact::yes);

// The same without reading the values: tensors have only names and shapes, and what is verified is
// everything else.
Checkpoint read_checkpoint_outline(const std::filesystem::path& path);

// What is wrong with a file, as far as its bytes show: one problem per dataset that was
// changed. Empty when it is what was written.
std::vector<Problem> verify_checkpoint(const std::filesystem::path& path);

// "checkpoint-00000012.h5"
std::string checkpoint_name(Label label);
// The complete checkpoint with the highest label in the folder; nothing when there is no folder.
// Its values are not verified yet. UserError when the folder cannot be read.
std::optional<std::filesystem::path> newest_checkpoint(const std::filesystem::path& folder);
// All files of a folder that have a checkpoint's name, highest label first, whatever they hold.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);
// Removes all but the `keep` (at least 1) newest complete checkpoints, and what writers that were
// killed have left. Incomplete files neither count nor go. Not while a checkpoint is being written
// into the folder. SystemError when a file cannot be removed.
void prune_checkpoints(const std::filesystem::path& folder, int keep);

}  // namespace hetpipe
