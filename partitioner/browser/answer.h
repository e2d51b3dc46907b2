// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// The simulator for a page: `hetpipe simulate --json` without files. module.cpp makes WebAssembly
// of it.
namespace hetpipe {

// `request`: a JSON document with the texts of the files `cluster`, `profile` and `plan` (TOML),
// `files`, what messages call them, under the same keys, and `changes` in the words of
// hetpipe simulate --what-if; without that key nothing is changed.
// The answer: {"document": TEXT}, where TEXT is to the last byte what the command prints for these
// files; or {"problems": [{"where": ..., "text": ...}]}, what is wrong with them.
std::string browser_answer(std::string_view request);

}  // namespace hetpipe
