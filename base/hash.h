// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// FNV-1a, 64 bits: fingerprints of files and names. Not cryptographic.
namespace hetpipe {

inline constexpr std::uint64_t kHashStart = 0xcbf29ce484222325ULL;

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t start = kHashStart);
std::uint64_t hash_text(std::string_view text, std::uint64_t start = kHashStart);
std::string to_hex(std::uint64_t hash);  // 16 digits

}  // namespace hetpipe
