// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "kernels/device.h"
#include "launch/trained/options.h"
#include "runtime/data/dataset.h"
#include "runtime/model/model.h"
#include "runtime/model/zoo.h"
#include "runtime/store/checkpoint.h"
#include "runtime/training/checkpoint.h"

namespace hetpipe {

// A checkpoint, and the model that it is of.
class Trained {
 public:
  // Reads and verifies the checkpoint. UserError: none, damaged, or no telling which model it is
  // of.
  explicit Trained(const TrainedOptions& options);

  const std::filesystem::path& path() const { return path_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }

  // The data of --data, as the model reads them. UserError where there are none.
  Dataset open(Split split) const;
  // The model as for these data, or as for those that it was trained on, which the checkpoint says.
  // UserError where that is another model than the checkpoint's, or where the checkpoint does not
  // say.
  Model model_for(const Dataset& data) const;
  Model model() const;
  bool says_what_for() const { return checkpoint_.trained_on.has_value(); }
  // Weights and running statistics of one of these models.
  FlatState state_of(const Model& model) const;
  // The byte of each token of a text; empty: the checkpoint does not say.
  std::string vocabulary() const;
  // By label; empty: neither these data nor the checkpoint say.
  std::vector<std::string> class_names(const Dataset& data) const;

 private:
  void check_same(const Model& model, const std::string& made_for) const;

  const TrainedOptions& options_;
  std::filesystem::path path_;
  Checkpoint checkpoint_;
  ModelChoice choice_;
};

// `local_rank`: of this process on its machine, for machines with several GPUs.
std::unique_ptr<Device> device_for(const TrainedOptions& options, int local_rank = 0);

}  // namespace hetpipe
