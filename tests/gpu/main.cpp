// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>

#include "kernels/cuda_loader.h"
#include "kernels/devices.h"
#include "tests/main/filter.h"

// Tests of the CUDA device: of the module that lies beside the program, or of HETPIPE_CUDA_MODULE.
// Exit code 77, and why, where there is no GPU.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int without = 77;
#ifdef HETPIPE_CUDA_MODULE
  hetpipe::use_cuda_module(HETPIPE_CUDA_MODULE);
  without = 1;  // the double is there, or something is wrong
#endif
  if (!hetpipe::test::filter_selects()) return 1;
  if (testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  const hetpipe::DeviceChoice choice = hetpipe::choose_device();
  if (choice.name == "cuda") return RUN_ALL_TESTS();
  std::printf("skipped: no GPU to test on: %s\n", choice.why.c_str());
  return without;
}
