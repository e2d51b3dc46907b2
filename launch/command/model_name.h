// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.h"

namespace hetpipe {

// Adds a problem unless `name` is a built-in model's or a folder with an exported one. `option`:
// as typed.
void check_model_name(const std::string& option, const std::string& name, Problems& problems);
// The same where only a folder will do.
void check_model_folder(const std::string& option, const std::string& folder, Problems& problems);

}  // namespace hetpipe
