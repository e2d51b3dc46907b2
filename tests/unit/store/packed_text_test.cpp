// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/packed_text.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace hetpipe {
namespace packed_text_test {

std::string unpacked(const std::string& text, std::size_t size) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  EXPECT_EQ(text.size() % 4, 0u);
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const std::size_t digit = digits.find(c);
    EXPECT_NE(digit, digits.npos);
    bits = bits << 6 | static_cast<unsigned>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 255);
  }
  std::string whole(size + 1, '\0');
  uLongf length = whole.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(whole.data()), &length,
                       reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()),
            Z_OK);
  whole.resize(length);
  return whole;
}

TEST(PackedText, UnpacksToTheSameBytes) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(unpacked(packed_text(text), text.size()), text) << i;
    text += static_cast<char>(i * i);
  }
  const std::string same(1'000'000, 'a');
  EXPECT_LT(packed_text(same).size(), 2000u);
  EXPECT_EQ(unpacked(packed_text(same), same.size()), same);
}

}  // namespace packed_text_test
}  // namespace hetpipe
