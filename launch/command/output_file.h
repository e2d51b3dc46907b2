// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace hetpipe {

// Checked before the work that fills it: a file that cannot be written is the user's mistake, to be
// reported at once. Adds what is wrong with `path` under the option's name.
void check_output_file(const std::string& option, const std::string& path, Problems& problems);

// Likewise of a folder, which need not be there yet.
void check_output_folder(const std::string& option, const std::string& path, Problems& problems);

// Nor may it be a file that the same command uses otherwise: its input would be lost, and
// of two outputs to one file only the last would remain. `others` are options and their paths.
using NamedFiles = std::vector<std::pair<std::string, std::optional<std::string>>>;
void check_file_of_its_own(const std::string& option, const std::string& path,
                           const NamedFiles& others, Problems& problems);

}  // namespace hetpipe
