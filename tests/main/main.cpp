// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/main/filter.h"

// Of every test program without a main of its own, in place of GoogleTest's.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return hetpipe::test::filter_selects() ? RUN_ALL_TESTS() : 1;
}
