// SPDX-License-Identifier: Apache-2.0
#include "launch/command/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>

namespace hetpipe {
namespace terminal_test {

// What people_watch() answers in a process whose standard output is this descriptor.
bool answer(
    int standard_output, const std::function<void()>& prepare = [] {}) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TERM", "xterm", 1);
    ::unsetenv("OMPI_COMM_WORLD_RANK");
    ::unsetenv("SLURM_PROCID");
    prepare();
    ::dup2(standard_output, STDOUT_FILENO);
    ::_exit(people_watch() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status) == 1;
}

class PseudoTerminal {
 public:
  PseudoTerminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_EQ(::grantpt(master_), 0);
    EXPECT_EQ(::unlockpt(master_), 0);
    slave_ = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    EXPECT_GE(slave_, 0);
  }
  ~PseudoTerminal() {
    ::close(slave_);
    ::close(master_);
  }
  int slave() const { return slave_; }

 private:
  int master_;
  int slave_ = -1;
};

TEST(PeopleWatch, ATerminalButNeitherPipeNorFile) {
  const PseudoTerminal terminal;
  EXPECT_TRUE(answer(terminal.slave()));
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_FALSE(answer(ends[1]));
  ::close(ends[0]);
  ::close(ends[1]);
  const int file = ::open("/dev/null", O_WRONLY);
  EXPECT_FALSE(answer(file));
  ::close(file);
}

TEST(PeopleWatch, NotOnATerminalThatMovesNoCursor) {
  const PseudoTerminal terminal;
  EXPECT_FALSE(answer(terminal.slave(), [] { ::setenv("TERM", "dumb", 1); }));
  EXPECT_FALSE(answer(terminal.slave(), [] { ::unsetenv("TERM"); }));
}

// A rank of an mpirun on another host has a terminal, but no mpirun above it to ask.
TEST(PeopleWatch, NotWhereMpirunCannotBeAsked) {
  const PseudoTerminal terminal;
  EXPECT_FALSE(answer(terminal.slave(), [] {
    ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  }));
}

}  // namespace terminal_test
}  // namespace hetpipe
