// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "partitioner/toml_file.h"

namespace hetpipe {

enum class FileKind { cluster, profile, plan };

// UserError if a file is clearly another of the three: easily mixed up on a command line, and
// then one sentence helps more than a complaint about each of its keys.
void check_file_kind(const TomlValue& root, const std::string& file, FileKind wanted);

}  // namespace hetpipe
