// SPDX-License-Identifier: Apache-2.0
#include "launch/recipes/recipe.h"

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "launch/train/options.h"
#include "partitioner/toml_file.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// From the program's folder: in a build tree and a bundle, and where an installation has data.
constexpr const char* kFolders[] = {"../share/hetpipe/recipes", HETPIPE_INSTALLED_RECIPES};
constexpr const char* kEnding = ".toml";

// What `hetpipe train` has for one machine, for the data there, or for one run.
constexpr const char* kNotOfATraining[] = {"plan",
                                           "cluster",
                                           "pool",
                                           "profile",
                                           "profile-device",
                                           "profile-batch",
                                           "policy",
                                           "virtual-workers",
                                           "servers",
                                           "placement",
                                           "shares",
                                           "data",
                                           "init",
                                           "init-partial",
                                           "output",
                                           "resume",
                                           "device",
                                           "threads",
                                           "data-threads",
                                           "run-ahead",
                                           "transport",
                                           "transport-path",
                                           "nccl-blocks",
                                           "timeout",
                                           "clock",
                                           "time-of",
                                           "time-cluster",
                                           "time-profile",
                                           "log-every",
                                           "metrics",
                                           "tensorboard",
                                           "checkpoint-every",
                                           "keep",
                                           "exact",
                                           "trace",
                                           "notice",
                                           "flight-recorder",
                                           "rehearse-preemption",
                                           "skip-damaged",
                                           "json"};

bool is_of_a_training(const Option& option) {
  return option.in_file && std::find(std::begin(kNotOfATraining), std::end(kNotOfATraining),
                                     option.name) == std::end(kNotOfATraining);
}

std::vector<std::string> keys_of(const OptionTable& table) {
  std::vector<std::string> keys;
  for (const OptionGroup& group : table.groups()) {
    for (const Option& option : group.options) {
      if (is_of_a_training(option)) keys.push_back(option.name);
    }
  }
  return keys;
}

fs::path folder_of_recipes() {
  std::error_code error;
  const fs::path programs = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* folder : kFolders) {
    if (fs::is_directory(programs / folder, error)) return (programs / folder).lexically_normal();
  }
  return {};
}

bool is_path(const std::string& recipe) {
  return recipe.find('/') != std::string::npos || recipe.ends_with(kEnding);
}

// Keys and values, as hetpipe train reads them, which has all of them.
void check_recipe(const std::string& file) {
  TrainOptions all;
  OptionTable table = train_option_table(all);
  Problems problems;
  table.read(std::vector<std::string>{"--config", file, "--print-config"}, problems);
  problems.throw_if_any();
  for (const auto& [key, value] : parse_toml(read_file(file), file).entries) {
    if (std::find(std::begin(kNotOfATraining), std::end(kNotOfATraining), key) ==
        std::end(kNotOfATraining)) {
      continue;
    }
    problems.add(file + ":" + std::to_string(value.line),
                 key +
                     " (it is of one machine, data set or run, and a recipe is for all of them). "
                     "Remove the line, and give --" +
                     key + " on the command line.");
  }
  problems.throw_if_any();
}

}  // namespace

Option recipe_option(std::optional<std::string>& recipe) {
  return command_line_only(offering(
      recipe_names(),
      text_option("recipe", "NAME|FILE", recipe,
                  "Options of a whole training, by the name of a recipe that comes with hetpipe, "
                  "or from a file. What else is given takes precedence (docs/recipes.md).")));
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_of_recipes(), error)) {
    if (entry.path().extension() == kEnding) names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> recipe_keys() {
  TrainOptions options;
  return keys_of(train_option_table(options));
}

std::string recipe_file(const std::string& recipe) {
  if (is_path(recipe)) return recipe;
  const std::vector<std::string> names = recipe_names();
  if (std::find(names.begin(), names.end(), recipe) == names.end()) {
    throw UserError("--recipe", unknown("recipe", recipe, names) +
                                    ". Give one of these, or a file (./" + recipe + kEnding + ").");
  }
  return (folder_of_recipes() / (recipe + kEnding)).string();
}

std::vector<OptionsBelow> options_of_recipe(const std::optional<std::string>& recipe,
                                            const OptionTable& table,
                                            const std::vector<std::string>& without) {
  if (!recipe) return {};
  const std::string file = recipe_file(*recipe);
  check_recipe(file);
  const std::vector<std::string> all = recipe_keys();
  OptionsBelow below{.file = file, .without = without};
  for (std::string& key : keys_of(table)) {
    if (std::find(all.begin(), all.end(), key) != all.end()) below.only.push_back(std::move(key));
  }
  return {below};
}

std::string recipe_text(const std::optional<std::string>& recipe, const OptionTable& table) {
  if (!recipe) return "";
  std::vector<std::string> parts{"recipe " + *recipe};
  const std::string file = recipe_file(*recipe);
  for (const OptionChange& change : table.changes()) {
    if (change.file != file || change.was.empty()) continue;
    parts.push_back(
        format("--%s was %s, is %s", change.name.c_str(), change.was.c_str(), change.is.c_str()));
  }
  return join(parts, "; ");
}

}  // namespace hetpipe
