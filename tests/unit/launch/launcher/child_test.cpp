// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher/child.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace hetpipe {
namespace child_test {

namespace fs = std::filesystem;

class Child : public testing::Test {
 protected:
  ~Child() override { fs::remove(said_); }
  int shell(
      const std::string& script, const std::function<bool()>& stop = [] { return false; }) {
    return run_child({"/bin/sh", "-c", script}, said_, stop);
  }
  std::string said() const { return read_file(said_); }
  const fs::path said_ = fs::temp_directory_path() / format("hetpipe-child-%d", ::getpid());
};

TEST_F(Child, SpeaksIntoAFileAndLeavesWithItsCode) {
  EXPECT_EQ(shell("echo out; echo error >&2; exit 7"), 7);
  EXPECT_EQ(said(), "out\nerror\n");
  EXPECT_EQ(shell("cat"), 0);  // there is nothing to read
  EXPECT_EQ(said(), "");
  EXPECT_EQ(shell("kill -9 $$"), 128 + SIGKILL);
}

TEST_F(Child, HasAGroupOfItsOwn) {
  shell("ps -o pgid= -p $$; echo $$");
  const std::vector<std::string> lines = split(said(), '\n');
  ASSERT_GE(lines.size(), 2u);
  EXPECT_EQ(std::stoi(lines[0]), std::stoi(lines[1]));
}

TEST_F(Child, IsAskedToEnd) {
  // Once it has said that it is ready.
  const auto ready = [&] { return fs::exists(said_) && said() == "ready\n"; };
  EXPECT_EQ(shell("trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done", ready), 9);
}

TEST_F(Child, ThatIsNoProgram) {
  EXPECT_EQ(run_child({"/nowhere/program"}, said_, [] { return false; }), 127);
  EXPECT_THROW(run_child({"/bin/true"}, "/nowhere/said", [] { return false; }), SystemError);
}

TEST(FindProgram, LooksIntoThePath) {
  EXPECT_THAT(find_program("sh"), testing::EndsWith("/sh"));
  EXPECT_EQ(find_program("no-such-program-here"), "");
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
}

TEST(Interrupts, AreNotedWhileTheyLive) {
  const Interrupts interrupts;
  EXPECT_FALSE(Interrupts::asked());
  ::raise(SIGINT);
  EXPECT_TRUE(Interrupts::asked());
}

}  // namespace child_test
}  // namespace hetpipe
