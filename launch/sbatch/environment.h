// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/sbatch/script.h"

// What surrounds the ranks of a batch job: modules and variables, a container.
namespace hetpipe {

// The lines of the script for --setup: a file is read as it is when the job starts; a line is
// written down, if bash can read it.
std::vector<std::string> setup_lines(const std::vector<std::string>& given, Problems& problems);

// --container, --container-runtime and what they exclude.
void check_container(const std::optional<std::string>& wanted, const std::string& runtime,
                     bool mpirun, Problems& problems);

Container container_of(const std::string& runtime);

// The folders that a container has to see: that of the job, and those in which `paths` are, where
// they are absolute. UserError: a name that a list of folders cannot hold.
std::vector<std::string> folders_for_container(const std::string& folder,
                                               const std::vector<std::string>& paths);

}  // namespace hetpipe
