// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/peer.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

extern char** environ;

namespace hetpipe::bench {

Peer::Peer(const std::vector<std::string>& command) : name_(command.front()) {
  ::signal(SIGPIPE, SIG_IGN);  // hear() reports a peer that has ended
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) {
    throw SystemError(std::string("pipe: ") + std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int error =
      ::posix_spawnp(&process_, words.front(), &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(to[0]);
  ::close(from[1]);
  if (error != 0) throw SystemError("starting " + name_ + ": " + std::strerror(error));
  to_ = ::fdopen(to[1], "w");
  from_ = ::fdopen(from[0], "r");
}

Peer::~Peer() {
  std::fclose(to_);  // the end of its input is its end
  std::fclose(from_);
  ::waitpid(process_, nullptr, 0);
}

void Peer::say(const std::string& line) {
  std::fprintf(to_, "%s\n", line.c_str());
  std::fflush(to_);
}

std::string Peer::hear() {
  std::string line;
  for (int c = std::fgetc(from_); c != '\n'; c = std::fgetc(from_)) {
    if (c == EOF) throw SystemError(name_ + " ended before it answered (its message is above)");
    line += static_cast<char>(c);
  }
  return line;
}

}  // namespace hetpipe::bench
