// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/data/made_tar.h"

#include <cstdio>

namespace hetpipe {

std::string tar_member(const std::string& name, const std::string& content, const TarHeader& of) {
  const std::size_t size = of.size < 0 ? content.size() : static_cast<std::size_t>(of.size);
  std::string header(512, '\0');
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
  put(148, "        ");
  header[156] = of.type;
  put(257, std::string("ustar\0", 6) + "00");
  put(345, of.prefix);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(digits, sizeof digits, "%06o", sum);
  put(148, std::string(digits, 6) + '\0' + ' ');
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

std::string tar_end() { return std::string(1024, '\0'); }

std::string tar_sample(const std::string& name, const std::string& image, const std::string& label,
                       const std::string& ending) {
  return tar_member(name + ending, image) + tar_member(name + ".cls", label);
}

}  // namespace hetpipe
