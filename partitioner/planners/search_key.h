// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace hetpipe {

// Numbers as a part of a key, each with a slash behind it: printf takes ten times as long.
inline std::string key_of(std::initializer_list<std::int64_t> numbers) {
  std::string key;
  for (const std::int64_t number : numbers) {
    key += std::to_string(number);
    key += '/';
  }
  return key;
}

}  // namespace hetpipe
