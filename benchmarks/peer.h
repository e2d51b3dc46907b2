// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace hetpipe::bench {

// Another program that is measured beside this one: commands go in and answers come out line by
// line, so that both can take turns. It idles in a read while it is not asked.
class Peer {
 public:
  explicit Peer(const std::vector<std::string>& command);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void say(const std::string& line);
  std::string hear();  // SystemError when the program has ended

 private:
  std::string name_;
  pid_t process_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
};

}  // namespace hetpipe::bench
