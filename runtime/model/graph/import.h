// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/model/model.h"

// Networks that PyTorch exported (launch/pytorch/hetpipe_export.py, docs/graph-format.md).
namespace hetpipe {

// What an imported network learns by. automatic: cross-entropy.
inline constexpr const char* kAutomaticLoss = "auto";
std::vector<std::string> loss_names();  // "auto", "cross-entropy", "mse", ...

struct ImportOptions {
  std::string loss = kAutomaticLoss;
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

}  // namespace hetpipe
