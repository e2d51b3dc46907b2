// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

// The words of a PTX text. An opcode with its modifiers (ld.global.v4.u32) is one word, and so is a
// special register (%tid.x). Comments are left out.
namespace hetpipe::cuda::ptx {

enum class TokenKind { word, directive, number, string, punctuation, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  // of the source; of a string without its quotes
  int line = 0;
};

// Ends with a token of kind `end`. `name` is for messages: UserError at what PTX does not have.
std::vector<Token> read_tokens(const std::string& name, std::string_view source);

}  // namespace hetpipe::cuda::ptx
