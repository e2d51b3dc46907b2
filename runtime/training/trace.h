// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.h"
#include "base/log.h"

namespace hetpipe {

// A trace that cannot be written any more (a full disk) is abandoned; training continues.
template <class Write>
void keep_training(Log& log, Write write) {
  try {
    write();
  } catch (const SystemError& error) {
    log.warning(std::string(error.what()) + "; training continues without this trace");
  }
}

}  // namespace hetpipe
