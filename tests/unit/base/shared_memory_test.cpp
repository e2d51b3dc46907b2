// SPDX-License-Identifier: Apache-2.0
#include "base/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <optional>

#include "base/error.h"

namespace hetpipe {
namespace shared_memory_test {

// The exit code of another process that runs this.
template <class Run>
int in_another_process(const Run& run) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(run());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(SharedMemory, IsReadByAnotherProcess) {
  SharedMemory made(3'000'000);
  std::memcpy(made.data() + 2'999'000, "weights", 8);
  const SharedMemory::Name name = made.name();
  EXPECT_EQ(in_another_process([&] {
              const SharedMemory opened = SharedMemory::open(name);
              return std::strcmp(reinterpret_cast<char*>(opened.data()) + 2'999'000, "weights");
            }),
            0);
  // Which cannot write it.
  EXPECT_EQ(in_another_process([&] {
              std::signal(SIGSEGV, SIG_DFL);
              SharedMemory::open(name).data()[0] = std::byte{1};
              return 0;
            }),
            -SIGSEGV);
}

TEST(SharedMemory, OutlivesItsMakerWhereItIsOpen) {
  std::optional<SharedMemory> made(std::in_place, 4096);
  made->data()[7] = std::byte{42};
  const SharedMemory opened = SharedMemory::open(made->name());
  made.reset();
  EXPECT_EQ(opened.data()[7], std::byte{42});
}

TEST(SharedMemory, WhatIsGoneOrSomethingElseIsRefused) {
  SharedMemory::Name name;
  {
    const SharedMemory made(4096);
    name = made.name();
  }
  EXPECT_THROW(SharedMemory::open(name), SystemError);
  const SharedMemory other(4096);  // perhaps under the same descriptor
  EXPECT_THROW(SharedMemory::open(name), SystemError);
  SharedMemory::Name wrong = other.name();
  wrong.bytes = 8192;
  EXPECT_THROW(SharedMemory::open(wrong), SystemError);
}

}  // namespace shared_memory_test
}  // namespace hetpipe
