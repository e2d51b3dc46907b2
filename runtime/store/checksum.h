// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// CRC-32 as in zip, PNG and zlib: Python's zlib.crc32 gives the same number, so that a file can be
// checked with nothing but the standard library. zlib computes 4 GB/s on one core; FNV-1a of
// base/hash.h, byte by byte, 0.7. XXH3 would be faster than memory, for one more dependency.
namespace hetpipe {

// Of several pieces: each piece with the checksum of what came before it.
std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before = 0);
std::uint32_t crc32_of(std::string_view text, std::uint32_t before = 0);
std::string checksum_text(std::uint32_t checksum);  // 8 hexadecimal digits

}  // namespace hetpipe
