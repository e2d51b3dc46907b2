// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/checksum.h"

#include <zlib.h>

#include "base/text.h"

namespace hetpipe {

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before) {
  if (bytes.empty()) return before;  // zlib takes a null pointer for a wish to start again
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::uint32_t crc32_of(std::string_view text, std::uint32_t before) {
  return crc32_of(std::as_bytes(std::span(text.data(), text.size())), before);
}

std::string checksum_text(std::uint32_t checksum) { return format("%08x", checksum); }

}  // namespace hetpipe
