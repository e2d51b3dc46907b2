// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.h"

namespace hetpipe {

// Before the work that fills it: a file that could not be written is the user's mistake, and one to
// hear of at once. Adds what is wrong with `path` under the option's name.
void check_output_file(const std::string& option, const std::string& path, Problems& problems);

}  // namespace hetpipe
