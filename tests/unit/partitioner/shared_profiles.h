// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

// Measured profiles of other projects, used in place where they are there.
namespace hetpipe::test {

inline std::filesystem::path shared_profile(const std::string& collection,
                                            const std::string& name) {
  return std::filesystem::path(HETPIPE_SOURCE_DIR) / "../shared/data/profiles" / collection / name;
}

}  // namespace hetpipe::test
