// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/sample_format.h"
#include "runtime/model/loss.h"
#include "runtime/model/model.h"

// Networks that PyTorch exported (launch/pytorch/hetpipe_export.py, docs/graph-format.md).
namespace hetpipe {

struct ImportOptions {
  LossChoice loss{};
  bool dropout = true;     // false: everything that draws is left out
  std::string init{};      // a safetensors file with initial weights; empty: the folder's
  bool whole_init = true;  // it holds all of them, and nothing else
};

// Whether a name of a model is a folder with an exported network.
bool is_exported_model(const std::string& name);
std::string exported_name(const std::filesystem::path& folder);  // what it was exported as

// The network of a folder, with its weights as initial values. UserError: the folder's problems,
// or every operator that no layer computes, with its module and line of source.
Model import_model(const std::filesystem::path& folder, const ImportOptions& options = {});

// What a training reads of each sample, and learns from. UserError as import_model's, of the loss.
SampleFormat exported_samples(const std::filesystem::path& folder, const LossChoice& loss);

}  // namespace hetpipe
