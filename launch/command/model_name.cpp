// SPDX-License-Identifier: Apache-2.0
#include "launch/command/model_name.h"

#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "runtime/model/graph/import.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace {

constexpr const char* kGiveFolder =
    "Give the folder that hetpipe_export.py wrote (docs/own-model.md)";

// Why there is no exported model; empty: nothing of this name exists.
std::string why_not_exported(const std::string& name) {
  std::error_code code;
  if (std::filesystem::is_directory(name, code)) {
    return "'" + name + "' is a folder without a graph.json (an exported model has one)";
  }
  if (std::filesystem::exists(name, code)) {
    return "'" + name + "' is a file (an exported model is a folder with a graph.json)";
  }
  return "";
}

}  // namespace

void check_model_name(const std::string& option, const std::string& name, Problems& problems) {
  const std::vector<std::string> built_in = model_names();
  if (is_exported_model(name) || std::ranges::find(built_in, name) != built_in.end()) return;
  if (const std::string why = why_not_exported(name); !why.empty()) {
    problems.add(option, why + ". " + kGiveFolder + ", or the name of a built-in model.");
  } else if (name.find('/') != std::string::npos) {
    problems.add(option, "there is no folder '" + name + "'. " + kGiveFolder + ".");
  } else {
    problems.add(option, unknown("model", name, built_in) +
                             ", and there is no folder of that name. " + kGiveFolder +
                             ", or choose a built-in one.");
  }
}

void check_model_folder(const std::string& option, const std::string& folder, Problems& problems) {
  if (is_exported_model(folder)) return;
  const std::string why = why_not_exported(folder);
  problems.add(option, (why.empty() ? "there is no folder '" + folder + "'" : why) + ". " +
                           kGiveFolder + ".");
}

}  // namespace hetpipe
