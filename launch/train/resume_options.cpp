// SPDX-License-Identifier: Apache-2.0
#include "launch/train/resume_options.h"

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/recipes/recipe.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// What a start says of itself, and files whose copies stand in the run directory.
const std::vector<std::string> kOfOneStart{"plan",    "cluster",        "pool",
                                           "profile", "profile-device", "profile-batch",
                                           "output",  "resume",         "rehearse-preemption",
                                           "json"};

// A run that stopped at its target accuracy is resumed to train further.
bool reached_its_target(const fs::path& run) {
  const fs::path result = run / "result.json";
  if (!fs::is_regular_file(result)) return false;
  try {
    return Json::parse(read_file(result.string())).at("exit").get<std::string>() ==
           "target-accuracy";
  } catch (const std::exception&) {
    return false;  // cut off, or of another program: it says nothing
  }
}

}  // namespace

std::vector<OptionsBelow> options_of_the_run(TrainOptions& options) {
  if (!options.resume) return {};
  fs::path run;
  if (options.resume != "latest" && options.resume != "auto") {
    const fs::path given = *options.resume;
    std::error_code error;
    if (!fs::exists(given, error)) {
      throw UserError("--resume", given.string() +
                                      " does not exist. Give the directory of a run, "
                                      "or a checkpoint.");
    }
    if (fs::is_directory(given, error)) {
      if (!fs::is_regular_file(given / "config.toml", error)) {
        throw UserError("--resume", given.string() +
                                        " is not the directory of a run (it has no "
                                        "config.toml). Give one, or a checkpoint.");
      }
      run = given;
      if (!options.output) options.output = run.string();
      options.resume = "latest";
    } else {
      const fs::path folder = fs::absolute(given).parent_path();
      if (folder.filename() != "checkpoints") return {};
      run = folder.parent_path();
    }
  } else if (options.output) {
    run = *options.output;
  } else {
    return {};
  }
  const fs::path file = run / "config.toml";
  if (!fs::is_regular_file(file)) return {};
  options.run_folder = run.string();
  OptionsBelow below{.file = file.string(), .without = kOfOneStart};
  if (!options.planning.cluster || options.plan) {
    // A plan that is there has settled these; another cluster is planned for as this one was.
    for (const std::string& name : settling_options()) below.without.push_back(name);
  }
  if (reached_its_target(run)) below.without.emplace_back("target-accuracy");
  return {below};
}

std::vector<OptionsBelow> train_options_below(TrainOptions& options, const OptionTable& table) {
  const std::vector<OptionsBelow> of_the_run = options_of_the_run(options);
  const bool planned = options.plan || (options.run_folder && !options.planning.cluster);
  std::vector<OptionsBelow> below = options_of_recipe(
      options.recipe, table, planned ? settling_options() : std::vector<std::string>());
  below.insert(below.end(), of_the_run.begin(), of_the_run.end());
  return below;
}

std::string changed_options(const OptionTable& table, const TrainOptions& options) {
  if (!options.run_folder) return "";
  const std::string file = (fs::path(*options.run_folder) / "config.toml").string();
  std::vector<std::string> changes;
  for (const OptionChange& change : table.changes()) {
    if (change.file != file) continue;
    changes.push_back(format("--%s was %s, is %s", change.name.c_str(),
                             change.was.empty() ? "not given" : change.was.c_str(),
                             change.is.c_str()));
  }
  return changes.empty() ? "" : "options changed since: " + join(changes, "; ");
}

}  // namespace hetpipe
