// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "runtime/transport/lifeline_socket.h"

// How the ranks' connections to rank 0 come about, on a port to which anybody can connect: port
// scanners, other jobs, somebody hostile. A rank shows a token that only the ranks have and is
// welcomed. Whoever has not shown it can make rank 0 keep no more than that one frame, for a few
// seconds, in one of a few places; who comes when all are taken gets that of the one who has been
// silent for longest. A rank that loses its place in such a crowd comes again.
namespace hetpipe {

class Reception {
 public:
  // For ranks 1 up to `ranks`; the token has kTokenLength letters. unknown_seconds: for one who has
  // not shown it.
  Reception(Listener listener, const std::string& token, int ranks, double unknown_seconds = 5);
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  // Nobody is received any more. Who was welcomed.
  std::map<Rank, FrameStream> close();

 private:
  struct Unknown {
    FrameStream stream;
    std::int64_t until_ns = 0;
  };
  void run();
  void wait_for_news();
  void let_in();
  void hear(std::int64_t now);

  Listener listener_;
  const std::string token_;
  const int ranks_;
  const std::size_t places_;
  const double unknown_seconds_;
  Socket wake_;
  std::atomic<bool> closed_{false};
  std::vector<Unknown> unknown_;        // the thread's alone, as what follows it; oldest first
  std::map<Rank, FrameStream> guests_;  // until it has ended
  std::thread thread_;
};

constexpr std::size_t kTokenLength = 32;

// The other end: a connection on which rank 0 has welcomed this rank. SystemError: none of the
// addresses led to it.
FrameStream be_received(const std::vector<std::string>& addresses, int port, Rank rank,
                        const std::string& token);

}  // namespace hetpipe
