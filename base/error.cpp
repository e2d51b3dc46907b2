// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace hetpipe {
namespace {

std::string joined(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    if (!problem.where.empty()) text += problem.where + ": ";
    text += problem.text;
  }
  return text;
}

// A file may hold a name of any length; a message shows how it begins.
std::string shortened(std::string text) {
  constexpr std::size_t kLongest = 500, kShown = 100;
  if (text.size() <= kLongest) return text;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n\t", at), text.size());
    if (end - at > kLongest) {
      std::size_t shown = at + kShown;  // not inside a letter of several bytes
      while (shown < end && (static_cast<unsigned char>(text[shown]) & 0xc0) == 0x80) ++shown;
      out += text.substr(at, shown - at) + "... (" + std::to_string(end - at) + " bytes)";
    } else {
      out += text.substr(at, end - at);
    }
    at = end;
    if (at < text.size()) out += text[at++];
  }
  return out;
}

}  // namespace

UserError::UserError(std::vector<Problem> problems)
    : std::runtime_error(joined(problems)), problems_(std::move(problems)) {}

UserError::UserError(std::string where, std::string text)
    : UserError(std::vector<Problem>{{shortened(std::move(where)), shortened(std::move(text))}}) {}

void Problems::add(std::string where, std::string text) {
  problems_.push_back({shortened(std::move(where)), shortened(std::move(text))});
}

void Problems::throw_if_any() {
  if (!problems_.empty()) throw UserError(std::move(problems_));
}

void ensure_failed(std::string_view message, const std::source_location& where) {
  std::fprintf(stderr,
               "%s:%u: internal error: %.*s (in %s). This is a bug in hetpipe: please report it.\n",
               where.file_name(), static_cast<unsigned>(where.line()),
               static_cast<int>(message.size()), message.data(), where.function_name());
  std::fflush(stderr);
  std::abort();
}

}  // namespace hetpipe
