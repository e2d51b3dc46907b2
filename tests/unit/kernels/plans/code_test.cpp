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

// The sentences by which a user of an old card finds the build for it.
TEST(Code, NamesTheBuildForACardThatItLeavesOut) {
  const std::string of_cuda_13 = "75-real,80-real,120", of_cuda_12 = "60-real,61-real,70-real,90";
  EXPECT_EQ(why_unfit(of_cuda_13, 91900, "TITAN V", 7, 0),
            "TITAN V has compute capability 7.0, and this build has code for 7.5, 8.0, 12.0 or "
            "newer. Take the bundle of CUDA 12 (launch/bundle --cuda 12 makes it), or one for it: "
            "HETPIPE_CUDA_ARCHITECTURES=70 when CMake configures with a CUDA Toolkit 12, the last "
            "that knows it");
  EXPECT_EQ(why_unfit(of_cuda_12, 91002, "GTX 980", 5, 2),
            "GTX 980 has compute capability 5.2, and this build has code for 6.0, 6.1, 7.0, 9.0 or "
            "newer. Take one for it: HETPIPE_CUDA_ARCHITECTURES=52 when CMake configures with a "
            "CUDA Toolkit 12, the last that knows it");
  EXPECT_EQ(why_unfit("90", 91900, "A100", 8, 0),
            "A100 has compute capability 8.0, and this build has code for 9.0 or newer. Take one "
            "for it: HETPIPE_CUDA_ARCHITECTURES=80 when CMake configures");
}

TEST(Code, IsOfNoUseWithACudnnThatDroppedTheCard) {
  const std::string code = "60-real,61-real,70-real,75-real,90";
  EXPECT_EQ(why_unfit(code, 91100, "P4000", 6, 1),
            "P4000 has compute capability 6.1, and cuDNN 9.11, which was loaded, has no code for "
            "cards below 7.5. Take cuDNN 9.10 for CUDA 12, the last that has (its folder first in "
            "LD_LIBRARY_PATH)");
  EXPECT_EQ(why_unfit(code, 91002, "P4000", 6, 1), "");
  EXPECT_EQ(why_unfit(code, 91900, "T4", 7, 5), "");
  EXPECT_EQ(why_unfit(code, 91002, "RTX 5090", 12, 0), "");
}

}  // namespace code_test
}  // namespace hetpipe::cuda
