// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace hetpipe {

// Where a library that this program loads at run time is: in lib/ beside the program's folder, as
// in a build tree and a bundle, or in the folder of its own that an installation has for them.
// Where it is in neither, the first of these.
std::filesystem::path module_file(const std::string& name);

}  // namespace hetpipe
