// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

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

}  // namespace

UserError::UserError(std::vector<Problem> problems)
    : std::runtime_error(joined(problems)), problems_(std::move(problems)) {}

UserError::UserError(std::string where, std::string text)
    : UserError(std::vector<Problem>{{std::move(where), std::move(text)}}) {}

void Problems::add(std::string where, std::string text) {
  problems_.push_back({std::move(where), std::move(text)});
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
