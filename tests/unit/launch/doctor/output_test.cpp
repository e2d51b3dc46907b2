// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "tests/unit/base/travels.h"

namespace hetpipe {
namespace output_test {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Output : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / format("hetpipe-doctor-output-%d", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(Output, IsTriedAndLeftAsItWas) {
  const std::string asked = (folder_ / "runs" / "a").string();
  {
    const OutputTrial trial(asked);
    const OutputFacts& facts = trial.facts();
    EXPECT_EQ(facts.tried, folder_.string());
    EXPECT_EQ(facts.unusable, "");
    EXPECT_EQ(facts.earlier_run, "");
    EXPECT_EQ(facts.write_failure, "");
    EXPECT_EQ(facts.lock_failure, "");
    EXPECT_TRUE(facts.lock_holds);
    EXPECT_GE(facts.written, 1 << 20);
    EXPECT_GT(facts.free, 0);
    EXPECT_TRUE(fs::exists(facts.file));
    // As another rank sees it, after its way there as text.
    const OutputSeen seen = look_at_output(from_text<OutputFacts>(to_text(facts)), 3);
    EXPECT_TRUE(seen.visible);
    EXPECT_EQ(seen.unwritable, "");
    EXPECT_EQ(seen.lock_failure, "");
    EXPECT_TRUE(seen.lock_holds);
    OutputFacts elsewhere = facts;
    elsewhere.file += "-of-another-host";
    EXPECT_FALSE(look_at_output(elsewhere, 3).visible);
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Output, WhatIsSeenTravelsAsItIs) {
  test::expect_all_travels(test::filled<OutputFacts>());
  test::expect_all_travels(test::filled<OutputSeen>());
}

TEST_F(Output, ALockThatIsGoneDoesNotHold) {
  const OutputTrial trial(folder_.string());
  OutputFacts facts = trial.facts();
  facts.file = (folder_ / "not-locked").string();
  write_file(facts.file, "");
  EXPECT_FALSE(look_at_output(facts, 1).lock_holds);
}

TEST_F(Output, AnEarlierRunAndAFileInItsPlace) {
  write_file(folder_ / "train.log", "trained\n");
  EXPECT_THAT(OutputTrial(folder_.string()).facts().earlier_run, HasSubstr("holds an earlier run"));
  const OutputTrial taken((folder_ / "train.log").string());
  EXPECT_THAT(taken.facts().unusable, HasSubstr("is not a directory"));
  EXPECT_EQ(taken.facts().file, "");
}

}  // namespace output_test
}  // namespace hetpipe
