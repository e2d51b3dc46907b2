// SPDX-License-Identifier: Apache-2.0
#include "base/failure.h"

#include <new>

namespace hetpipe {

ExitCode exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error) != nullptr) return ExitCode::user;
  if (dynamic_cast<const NumericalError*>(&error) != nullptr) return ExitCode::numerical;
  return ExitCode::system;  // SystemError, and what the standard library throws
}

std::string text_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return "out of memory on this machine";
  }
  return error.what();
}

}  // namespace hetpipe
