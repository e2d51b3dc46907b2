// SPDX-License-Identifier: Apache-2.0
#include "launch/sbatch/environment.h"

#include <algorithm>
#include <filesystem>

#include "launch/command/shell_words.h"
#include "launch/launcher/child.h"

namespace hetpipe {

std::vector<std::string> setup_lines(const std::vector<std::string>& given, Problems& problems) {
  std::vector<std::string> lines;
  for (const std::string& one : given) {
    std::error_code error;
    if (std::filesystem::is_regular_file(one, error)) {
      const std::string file = shell_words({std::filesystem::absolute(one).string()});
      lines.push_back("[ -r " + file + " ] || { echo " + file + ": cannot be read; exit 2; }");
      lines.push_back("# shellcheck source=/dev/null\n. " + file);
      continue;
    }
    if (one.find(' ') == std::string::npos && one.find('/') != std::string::npos) {
      problems.add("--setup", "'" + one + "' (there is no such file). Give a file, or a line.");
      continue;
    }
    if (one.ends_with('\\')) {
      problems.add("--setup", "'" + one +
                                  "' (would take the script's next line with it). Leave "
                                  "out the '\\' at its end.");
      continue;
    }
    // A here-document without its end is a warning to bash.
    const ProgramOutput read = output_of({"bash", "-n", "-c", one}, 10);
    if (read.code != 0 || !read.text.empty()) {
      problems.add("--setup", "'" + one + "' (bash cannot read it as a line: " +
                                  read.text.substr(0, read.text.find('\n')) + "). Mend it.");
    }
    lines.push_back(one);
  }
  return lines;
}

void check_container(const std::optional<std::string>& wanted, const std::string& runtime,
                     bool mpirun, Problems& problems) {
  if (!wanted) {
    if (runtime != "apptainer") {
      problems.add("--container-runtime", "has no effect without --container IMAGE. Give both.");
    }
    return;
  }
  const std::string& image = *wanted;
  std::error_code error;
  const bool address = image.find("://") != std::string::npos ||
                       (runtime == "pyxis" && !image.starts_with('/') && !image.starts_with('.') &&
                        !image.ends_with(".sqsh"));
  if (!address && !std::filesystem::exists(image, error)) {
    problems.add("--container", "'" + image +
                                    "' (there is no such file). Give the file of an "
                                    "image, or an address such as docker://HOST/NAME.");
  }
  if (runtime == "pyxis" && mpirun) {
    problems.add("--launcher",
                 "mpirun cannot start a container of Pyxis (it is a part of srun). "
                 "Use srun, or --container-runtime apptainer.");
  }
}

Container container_of(const std::string& runtime) {
  if (runtime == "pyxis") return Container::pyxis;
  return runtime == "singularity" ? Container::singularity : Container::apptainer;
}

std::vector<std::string> folders_for_container(const std::string& folder,
                                               const std::vector<std::string>& paths) {
  std::vector<std::string> folders{folder};
  std::error_code error;
  for (const std::string& path : paths) {
    std::filesystem::path there(path);
    if (!there.is_absolute()) continue;
    while (!std::filesystem::is_directory(there, error)) there = there.parent_path();
    if (there == there.root_path()) continue;
    if (std::find(folders.begin(), folders.end(), there.string()) == folders.end()) {
      folders.push_back(there.string());
    }
  }
  for (const std::string& of : folders) {
    if (of.find_first_of(",:") == std::string::npos) continue;
    throw UserError("--container", "cannot see " + of +
                                       " (',' and ':' separate folders for "
                                       "it). Give the folder another name.");
  }
  return folders;
}

}  // namespace hetpipe
