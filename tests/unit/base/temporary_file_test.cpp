// SPDX-License-Identifier: Apache-2.0
#include "base/temporary_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <vector>

#include "base/file.h"
#include "base/file_descriptor.h"

namespace hetpipe {
namespace temporary_file_test {

namespace fs = std::filesystem;

class TemporaryFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "temporary-file.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string name(const std::string& file) const { return (folder_ / file).string(); }
  static void write(const TemporaryFile& file) { const OpenFile created(file.create()); }

  // The status of a process that lives `life`, with signals as `hetpipe` has them.
  static int status_of(const std::function<void()>& life) {
    const pid_t child = ::fork();
    if (child == 0) {
      remove_temporary_files_on_signals();
      life();
      ::_exit(0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return status;
  }

  fs::path folder_;
};

TEST_F(TemporaryFileTest, IsGoneOrHasBecomeWhatItWasWrittenFor) {
  { write(TemporaryFile(name("a"))); }
  EXPECT_TRUE(fs::is_empty(folder_));
  write_file(name("whole"), "before");
  {
    TemporaryFile file(temporary_name(name("whole")));
    write(file);
    EXPECT_FALSE(file.becomes(name("no/such/folder")));
    EXPECT_TRUE(fs::exists(file.path()));
    EXPECT_TRUE(file.becomes(name("whole")));
  }
  EXPECT_EQ(read_file(name("whole")), "");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

// As by `timeout`, Ctrl-C, a closed terminal, a reader that has seen enough, a scheduler.
TEST_F(TemporaryFileTest, SignalsRemoveItAndEndTheProcessAllTheSame) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGQUIT, SIGUSR1, SIGXCPU}) {
    const int status = status_of([&] {
      const TemporaryFile one(name("one"));
      TemporaryFile two(name("two"));
      write(one);
      write(two);
      const TemporaryFile moved = std::move(two);
      if (!fs::exists(name("one")) || !fs::exists(name("two"))) ::_exit(9);
      ::raise(signal);
    });
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_TRUE(fs::is_empty(folder_)) << signal;
  }
}

TEST_F(TemporaryFileTest, ARelativeNameIsMeantFromWhereItWasGiven) {
  const int status = status_of([&] {
    if (::chdir(folder_.c_str()) != 0) ::_exit(9);
    const TemporaryFile file("here");
    write(file);
    if (!fs::exists(name("here")) || ::chdir("/") != 0) ::_exit(9);
    ::raise(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(TemporaryFileTest, WhatHasItsNameIsNoLongerRemoved) {
  const int status = status_of([&] {
    TemporaryFile file(temporary_name(name("kept")));
    write(file);
    file.becomes(name("kept"));
    write_file(file.path() + "x", "");  // a path that was let go is nobody's
    ::raise(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(fs::exists(name("kept")));
}

TEST_F(TemporaryFileTest, AForkedChildLeavesItsParentsFiles) {
  const TemporaryFile file(name("mine"));
  write(file);
  EXPECT_TRUE(WIFSIGNALED(status_of([] { ::raise(SIGTERM); })));
  EXPECT_TRUE(fs::exists(name("mine")));
}

// As under nohup.
TEST_F(TemporaryFileTest, AnIgnoredSignalStaysIgnored) {
  const auto before = ::signal(SIGHUP, SIG_IGN);
  const int status = status_of([&] {
    const TemporaryFile file(name("one"));
    write(file);
    ::raise(SIGHUP);
    if (!fs::exists(name("one"))) ::_exit(9);
  });
  ::signal(SIGHUP, before);
  EXPECT_EQ(status, 0);
}

TEST_F(TemporaryFileTest, MoreThanASignalRemovesAreStillTemporary) {
  {
    std::vector<TemporaryFile> many;
    for (int i = 0; i < 200; ++i) {
      many.emplace_back(name(std::to_string(i)));
      write(many.back());
    }
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace temporary_file_test
}  // namespace hetpipe
