// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/module_file.h"
#include "runtime/transport/nccl_module.h"

namespace hetpipe {
namespace nccl_module_test {

class NcclModuleTest : public testing::Test {
 protected:
  void SetUp() override {
    handle_ = dlopen(module_file("hetpipe_nccl.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle_, nullptr) << dlerror();
    entry_ = reinterpret_cast<NcclModuleEntry>(dlsym(handle_, kNcclModuleEntry));
    ASSERT_NE(entry_, nullptr);
  }
  void* handle_ = nullptr;
  NcclModuleEntry entry_ = nullptr;
};

TEST_F(NcclModuleTest, KnowsItsAbiAndItsVersion) {
  EXPECT_EQ(entry_(kNcclModuleAbi + 1), nullptr);
  ASSERT_NE(entry_(kNcclModuleAbi), nullptr);
  EXPECT_THAT(entry_(kNcclModuleAbi)->version(), testing::StartsWith("NCCL 2."));
}

// Tensors lie in memory pools, which no other GPU of a process reaches; NCCL takes it from here
// that it must not write into them, and knows the variable.
TEST_F(NcclModuleTest, LeavesTheTensorsOfOtherGpusAlone) {
  ASSERT_NE(entry_(kNcclModuleAbi), nullptr);
  ASSERT_NE(std::getenv("NCCL_P2P_DIRECT_DISABLE"), nullptr);
  EXPECT_STREQ(std::getenv("NCCL_P2P_DIRECT_DISABLE"), "1");
  Dl_info library{};
  ASSERT_NE(dladdr(dlsym(handle_, "ncclGetVersion"), &library), 0);
  EXPECT_THAT(read_file(library.dli_fname), testing::HasSubstr("P2P_DIRECT_DISABLE"));
}

// What its buffers come to, and that NCCL's own variables are heard.
TEST_F(NcclModuleTest, CountsTheMemoryOfAPair) {
  const NcclModule* const module = entry_(kNcclModuleAbi);
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  EXPECT_EQ(module->bytes_of_pair(1), 12 * kMiB);
  EXPECT_EQ(module->bytes_of_pair(3), 48 * kMiB);  // channels come in powers of two
  EXPECT_EQ(module->bytes_of_pair(4), 48 * kMiB);
  setenv("NCCL_BUFFSIZE", "8388608", 1);
  EXPECT_EQ(module->bytes_of_pair(1), 16 * kMiB);
  setenv("NCCL_BUFFSIZE", "0", 1);
  EXPECT_EQ(module->bytes_of_pair(1), 12 * kMiB);
  unsetenv("NCCL_BUFFSIZE");
  setenv("NCCL_MAX_CTAS", "2", 1);
  EXPECT_EQ(module->bytes_of_pair(8), 24 * kMiB);
  unsetenv("NCCL_MAX_CTAS");
}

// All that one card can show: from it to itself. Between two cards nothing is proven by this.
TEST_F(NcclModuleTest, SendsFromACardToItself) {
  try {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{1000}, std::size_t{9} << 20}) {
      entry_(kNcclModuleAbi)->send_to_self(0, bytes);
    }
  } catch (const SystemError& error) {
    const std::string why = error.what();
    const bool no_gpu = why.find("no CUDA-capable device") != std::string::npos ||
                        why.find("driver version is insufficient") != std::string::npos;
    if (no_gpu) GTEST_SKIP() << why;
    FAIL() << why;
  }
}

}  // namespace nccl_module_test
}  // namespace hetpipe
