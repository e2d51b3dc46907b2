// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cluster/cluster.h"

#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  hetpipe::fuzz::round_trip(data, size, [](const std::string& text) {
    return hetpipe::parse_cluster(text, "cluster.toml");
  });
  return 0;
}
