// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace hetpipe {

// CRC-32C (Castagnoli) of RFC 3720, 12.1.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace hetpipe
