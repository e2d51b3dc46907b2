// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/hdf5_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>

#include "base/error.h"

namespace hetpipe {
namespace hdf5_trial_test {

using testing::HasSubstr;

constexpr double kPatience = 300;  // s

std::string error_of(double seconds, const std::function<void()>& read) {
  try {
    try_in_a_child("data.h5", seconds, read);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(TryInAChild, WhatEndsIsFine) {
  int here = 0;
  EXPECT_EQ(error_of(kPatience, [&] { here = 1; }), "");
  EXPECT_EQ(here, 0);  // it was another process
}

TEST(TryInAChild, WhatItThrowsIsLeftToTheCaller) {
  EXPECT_EQ(error_of(kPatience, [] { throw UserError("data.h5", "is damaged."); }), "");
}

TEST(TryInAChild, ACrashIsDamage) {
  EXPECT_THAT(error_of(kPatience, [] { ::raise(SIGSEGV); }),
              HasSubstr("data.h5: is damaged (HDF5 crashes on it, signal 11). Fetch or make"));
}

TEST(TryInAChild, SoIsAReadThatNeverEnds) {
  EXPECT_THAT(error_of(0.2,
                       [] {
                         while (true) ::pause();
                       }),
              HasSubstr("data.h5: is damaged (HDF5 has not read it within"));
}

}  // namespace hdf5_trial_test
}  // namespace hetpipe
