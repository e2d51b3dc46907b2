// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/build_hash.h"

#include "base/file.h"
#include "base/hash.h"

namespace hetpipe {

std::uint64_t build_hash() {
  static const std::uint64_t hash = hash_text(read_file("/proc/self/exe"));
  return hash;
}

}  // namespace hetpipe
