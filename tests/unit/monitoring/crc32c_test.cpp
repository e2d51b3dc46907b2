// SPDX-License-Identifier: Apache-2.0
#include "runtime/monitoring/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace hetpipe {
namespace crc32c_test {

// RFC 3720, B.4, whose checksums are printed byte by byte, the lowest first.
TEST(Crc32c, OfTheVectorsOfTheRfc) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending, descending;
  for (char c = 0; c < 32; ++c) {
    ascending += c;
    descending.insert(descending.begin(), c);
  }
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
  EXPECT_EQ(crc32c(descending), 0x113fdb5cu);
}

TEST(Crc32c, OfTheCheckString) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

}  // namespace crc32c_test
}  // namespace hetpipe
