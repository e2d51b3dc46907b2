// SPDX-License-Identifier: Apache-2.0
#include "launch/report/run_again.h"

#include <algorithm>

#include "base/text.h"
#include "launch/command/shell_words.h"
#include "partitioner/plan/plan_table.h"

namespace hetpipe {

const std::string* text_of(const ReportedRun& run, const std::string& name) {
  for (const RunText& file : run.texts) {
    if (file.name == name) return &file.text;
  }
  return nullptr;
}

std::string config_value(const ReportedRun& run, const std::string& key) {
  const std::string* config = text_of(run, "config.toml");
  if (config == nullptr) return {};
  for (const std::string& line : split(*config, '\n')) {
    if (!line.starts_with(key + " = ")) continue;
    std::string value = line.substr(key.size() + 3);
    std::erase(value, '"');
    return value;
  }
  return {};
}

std::string run_again(const ReportedRun& run, const std::string& output,
                      const std::vector<std::string>& more, const std::string& plan) {
  if (run.simulation) {
    std::vector<std::string> words = run.simulated_by;
    words.insert(words.end(), {"--plan", plan.empty() ? run.plan_file : plan});
    words.insert(words.end(), more.begin(), more.end());
    return shell_words(words);
  }
  const auto file = [&](const char* name) { return run.name + "/" + name; };
  std::vector<std::string> words{"hetpipe", "train", "--config", file("config.toml")};
  // Files that were given by a path which need not be there any more; what was decided at the start
  // is decided again.
  const bool resumed = !config_value(run, "resume").empty();
  for (const char* key : {"plan", "cluster", "profile"}) {
    const std::string given = config_value(run, key);
    const std::string own = std::string(key) + ".toml";
    if (std::string(key) == "plan" && !plan.empty()) {
      words.insert(words.end(), {"--plan", plan});
    } else if (text_of(run, own) != nullptr &&
               (resumed || given.find(".toml") != std::string::npos)) {
      words.insert(words.end(), {std::string("--") + key, file(own.c_str())});
    }
  }
  if (resumed) words.insert(words.end(), {"--resume", "auto"});  // from nothing in a new directory
  words.insert(words.end(), more.begin(), more.end());
  words.insert(words.end(), {"--output", output});
  const std::string command = shell_words(words);
  if (config_value(run, "transport") == "threads" || !run.cluster) return command;
  return mpirun_line(run.plan, *run.cluster, command);
}

}  // namespace hetpipe
