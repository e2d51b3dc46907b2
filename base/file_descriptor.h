// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include "base/unique_handle.h"

namespace hetpipe {

struct FileDescriptor {
  using Handle = int;
  static Handle empty() { return -1; }
  static void close(Handle descriptor) noexcept { ::close(descriptor); }
};
using OpenFile = UniqueHandle<FileDescriptor>;

}  // namespace hetpipe
