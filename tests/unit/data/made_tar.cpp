// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/data/made_tar.h"

#include <algorithm>
#include <cstdio>

namespace hetpipe {
namespace {

constexpr std::size_t kBlock = 512;

// The sum of all bytes of a header, those of its own field taken as spaces.
void put_checksum(std::string& bytes, std::size_t header) {
  bytes.replace(header + 148, 8, "        ");
  unsigned sum = 0;
  for (std::size_t i = header; i < header + kBlock; ++i)
    sum += static_cast<unsigned char>(bytes[i]);
  char digits[16];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  bytes.replace(header + 148, 8, std::string(digits, 6) + '\0' + ' ');
}

}  // namespace

std::string tar_member(const std::string& name, const std::string& content, const TarHeader& of) {
  const std::size_t size = of.size < 0 ? content.size() : static_cast<std::size_t>(of.size);
  std::string header(kBlock, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  char digits[16];
  std::snprintf(digits, sizeof digits, "%011zo", size);
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, digits);
  put(136, "00000000000");
  header[156] = of.type;
  put(257, std::string("ustar\0", 6) + "00");
  put(345, of.prefix);
  put_checksum(header, 0);
  return header + content + std::string((kBlock - content.size() % kBlock) % kBlock, '\0');
}

std::string with_tar_checksums(std::string archive) {
  for (std::size_t at = 0; at + kBlock <= archive.size(); at += kBlock) {
    const auto block = archive.begin() + static_cast<std::ptrdiff_t>(at);
    const bool empty = std::all_of(block, block + kBlock, [](char c) { return c == '\0'; });
    if (!empty) put_checksum(archive, at);
  }
  return archive;
}

std::string tar_end() { return std::string(1024, '\0'); }

std::string tar_sample(const std::string& name, const std::string& image, const std::string& label,
                       const std::string& ending) {
  return tar_member(name + ending, image) + tar_member(name + ".cls", label);
}

}  // namespace hetpipe
