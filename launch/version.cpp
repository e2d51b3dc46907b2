// SPDX-License-Identifier: Apache-2.0
#include "launch/version.h"

#include <span>

#include "base/file.h"
#include "base/hash.h"
#include "kernels/devices.h"

namespace hetpipe {

std::uint64_t build_hash() {
  static const std::uint64_t hash = hash_text(read_file("/proc/self/exe"));
  return hash;
}

std::string version_text() {
  std::string text = "hetpipe " HETPIPE_VERSION " (build " + to_hex(build_hash()) + ")\n" +
                     "compiler: g++ " __VERSION__ ", " HETPIPE_BUILD_TYPE "\n";
  for (const std::string& device : known_devices()) text += "device " + device + '\n';
  return text;
}

}  // namespace hetpipe
