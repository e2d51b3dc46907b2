// SPDX-License-Identifier: Apache-2.0
#include "launch/command/version.h"

#include <string>

#include "base/hash.h"
#include "kernels/devices.h"
#include "runtime/training/build_hash.h"

namespace hetpipe {

const char* version_number() { return HETPIPE_VERSION; }

std::string version_text() {
  std::string text = "hetpipe " HETPIPE_VERSION " (build " + to_hex(build_hash()) + ")\n" +
                     "compiler: g++ " __VERSION__ ", " HETPIPE_BUILD_TYPE "\n";
  for (const std::string& device : known_devices()) text += "device " + device + '\n';
  return text;
}

}  // namespace hetpipe
