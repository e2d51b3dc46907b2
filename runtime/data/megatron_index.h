// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "runtime/data/token_windows.h"

// Private to this folder.
namespace hetpipe {

// What X.idx of Megatron-LM says of X.bin: the type of its tokens, and their number. UserError
// where it is no such file, is cut short, or describes another X.bin.
struct MegatronTokens {
  TokenType type = TokenType::uint16;
  std::int64_t count = 0;
};
MegatronTokens read_megatron_index(const std::filesystem::path& index, const FileReader& tokens);

}  // namespace hetpipe
