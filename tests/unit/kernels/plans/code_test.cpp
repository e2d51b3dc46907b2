// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/cuda/code.h"

// Which cards code runs on, by the rules of NVIDIA's programming guide (binary compatibility:
// within a major number, upwards; PTX: upwards).
namespace hetpipe::cuda {
namespace code_test {

TEST(Code, MachineCodeRunsOnLaterCardsOfItsMajorNumber) {
  EXPECT_TRUE(has_code_for("80-real", 8, 0));
  EXPECT_TRUE(has_code_for("80-real", 8, 9));
  EXPECT_FALSE(has_code_for("86-real", 8, 0));
  EXPECT_FALSE(has_code_for("80-real", 9, 0));
  EXPECT_FALSE(has_code_for("75-real,80-real", 7, 0));
}

TEST(Code, PtxRunsOnEveryLaterCard) {
  EXPECT_TRUE(has_code_for("75", 12, 0));
  EXPECT_TRUE(has_code_for("75-virtual", 7, 5));
  EXPECT_FALSE(has_code_for("75", 7, 0));
  EXPECT_TRUE(has_code_for("100-real,120", 12, 1));
  EXPECT_FALSE(has_code_for("100-real,120", 11, 0));
}

TEST(Code, OfOneCardIsOfNoOther) {
  EXPECT_TRUE(has_code_for("90a", 9, 0));
  EXPECT_FALSE(has_code_for("90a", 10, 0));
  EXPECT_FALSE(has_code_for("90a-real", 9, 1));
}

TEST(Code, IsListedByTheCards) {
  EXPECT_EQ(cards_with_code("75-real,100-real,120"), "7.5, 10.0, 12.0 or newer");
  EXPECT_FALSE(has_code_for("", 9, 0));
}

}  // namespace code_test
}  // namespace hetpipe::cuda
