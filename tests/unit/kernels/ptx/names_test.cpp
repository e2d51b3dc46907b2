// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/symbols.h"

#include <gtest/gtest.h>

namespace hetpipe::cuda::ptx {
namespace {

void hidden(int) {}

TEST(PtxNames, OfFunctionsThatOnlyThisFileSees) {
  EXPECT_EQ(symbol_at(reinterpret_cast<const void*>(&hidden)),
            "_ZN7hetpipe4cuda3ptx12_GLOBAL__N_16hiddenEi");
  EXPECT_EQ(symbol_at(nullptr), "");
}

TEST(PtxNames, AnonymousNamespacesOfNvcc) {
  EXPECT_EQ(without_file("_ZN7hetpipe4cuda39_GLOBAL__N__2c8c96a4_7_loss_cu_2325c53e4sumsIfEEvPKT_"),
            "_ZN7hetpipe4cuda12_GLOBAL__N_14sumsIfEEvPKT_");
  EXPECT_EQ(without_file("_Z1fN39_GLOBAL__N__2c8c96a4_7_loss_cu_2325c53e1AE"
                         "N39_GLOBAL__N__2c8c96a4_7_loss_cu_2325c53e1BE"),
            "_Z1fN12_GLOBAL__N_11AEN12_GLOBAL__N_11BE");
  EXPECT_EQ(without_file("_ZN12_GLOBAL__N_11fEv"), "_ZN12_GLOBAL__N_11fEv");
}

}  // namespace
}  // namespace hetpipe::cuda::ptx
