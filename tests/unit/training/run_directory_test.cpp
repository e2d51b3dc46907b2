// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"

namespace hetpipe {
namespace run_directory_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RunDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "run-directory.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = pattern;
  }
  void TearDown() override { fs::remove_all(top_); }

  static std::string refusal(const fs::path& path, RunStart start) {
    try {
      const RunDirectory directory(path, start);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }

  fs::path top_;
};

TEST_F(RunDirectoryTest, CreatesItsFolders) {
  const RunDirectory directory(top_ / "a" / "b", RunStart::fresh);
  EXPECT_TRUE(fs::is_directory(directory.checkpoints()));
  EXPECT_FALSE(fs::exists(top_ / "a" / "b" / "trace"));  // a run without traces has none
  EXPECT_EQ(directory.create_trace_folder(0), top_ / "a" / "b" / "trace");
  EXPECT_EQ(directory.create_trace_folder(12), top_ / "a" / "b" / "trace" / "from-00000012");
  EXPECT_TRUE(fs::is_directory(top_ / "a" / "b" / "trace" / "from-00000012"));
  EXPECT_EQ(directory.create_trace_folder(12, 3), top_ / "a" / "b" / "trace" / "from-00000012-3");
  EXPECT_EQ(directory.log(), top_ / "a" / "b" / "train.log");
}

TEST_F(RunDirectoryTest, IsUsedByOneRunAtATime) {
  {
    const RunDirectory first(top_, RunStart::fresh);
    EXPECT_THAT(refusal(top_, RunStart::resume), HasSubstr("is in use by another run (process " +
                                                           std::to_string(::getpid()) + " on "));
  }
  EXPECT_EQ(refusal(top_, RunStart::fresh), "");
}

// Somebody tidies up while it runs.
TEST_F(RunDirectoryTest, StaysLockedWhateverIsDeletedInIt) {
  const RunDirectory first(top_, RunStart::fresh);
  fs::remove(top_ / "lock");
  EXPECT_THAT(refusal(top_, RunStart::resume), HasSubstr("is in use by another run (another "));
  write_file(top_ / "lock", "");  // as a run makes it
  EXPECT_THAT(refusal(top_, RunStart::resume), HasSubstr("is in use by another run"));
  for (const fs::directory_entry& entry : fs::directory_iterator(top_)) fs::remove_all(entry);
  EXPECT_THAT(refusal(top_, RunStart::fresh), HasSubstr("is in use by another run"));
  EXPECT_TRUE(fs::is_empty(top_));
}

// A run that is killed leaves its lock file behind, but not its lock.
TEST_F(RunDirectoryTest, AKilledRunHoldsNoLock) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RunDirectory held(top_, RunStart::fresh);
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(fs::exists(top_ / "lock"));
  EXPECT_EQ(refusal(top_, RunStart::fresh), "");
}

TEST_F(RunDirectoryTest, AFreshRunDoesNotWriteOverAnEarlierOne) {
  { const RunDirectory first(top_, RunStart::fresh); }
  write_file(top_ / "checkpoints" / "0.h5", "x");
  EXPECT_THAT(refusal(top_, RunStart::fresh), HasSubstr("holds an earlier run"));
  EXPECT_EQ(refusal(top_, RunStart::resume), "");
}

TEST_F(RunDirectoryTest, SaysWhyItCannotBeUsed) {
  write_file(top_ / "file", "x");
  EXPECT_THAT(refusal(top_ / "file" / "run", RunStart::fresh),
              HasSubstr("cannot be created (Not a directory)"));
}

// /proc takes no new files, from root neither.
TEST_F(RunDirectoryTest, SaysThatItMayNotBeWritten) {
  EXPECT_THAT(refusal("/proc/self", RunStart::fresh), HasSubstr("cannot be written"));
}

// What can be known beforehand is, and looking leaves no trace.
TEST_F(RunDirectoryTest, CheckRefusesWhatTheConstructorWould) {
  const auto checked = [](const fs::path& path, RunStart start) -> std::string {
    try {
      RunDirectory::check(path, start);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  write_file(top_ / "file", "x");
  EXPECT_EQ(checked(top_ / "new" / "run", RunStart::fresh), "");
  EXPECT_FALSE(fs::exists(top_ / "new"));
  EXPECT_THAT(checked(top_ / "file", RunStart::fresh), HasSubstr("file is not a directory"));
  EXPECT_THAT(checked(top_ / "file" / "run", RunStart::fresh), HasSubstr("cannot be created"));
  { const RunDirectory run(top_ / "run", RunStart::fresh); }
  EXPECT_EQ(checked(top_ / "run", RunStart::fresh), "");
  write_file(top_ / "run" / "train.log", "x");
  EXPECT_THAT(checked(top_ / "run", RunStart::fresh), HasSubstr("holds an earlier run"));
  EXPECT_EQ(checked(top_ / "run", RunStart::resume), "");
}

TEST(RunDirectory, DefaultNameHoldsModelAndTime) {
  EXPECT_THAT(RunDirectory::default_path("lenet").string(),
              ::testing::MatchesRegex("runs/lenet-[0-9]{8}-[0-9]{6}"));
}

}  // namespace run_directory_test
}  // namespace hetpipe
