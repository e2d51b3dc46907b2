// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "runtime/transport/threads.h"

namespace hetpipe::test {

// Each rank in a thread of its own, until all have ended; one that fails ends the others.
inline void on_threads(int ranks, const std::function<void(Transport&)>& work) {
  const auto transports = make_threads_transports(ranks);
  std::vector<std::thread> threads;
  for (const auto& transport : transports) {
    threads.emplace_back([&work, rank = transport.get()] {
      try {
        work(*rank);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank->rank().value << ": " << error.what();
        rank->abort(3);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hetpipe::test
