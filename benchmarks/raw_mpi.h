// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

// MPI as a program without a runtime would use it, between ranks that also run the product's
// transport: what the table push-pull compares with. A communicator of its own.
namespace hetpipe::bench {

class RawMpi {
 public:
  RawMpi();  // by all ranks, inside an MpiSession
  ~RawMpi();
  RawMpi(const RawMpi&) = delete;
  RawMpi& operator=(const RawMpi&) = delete;

  // All at once, then waits for all as MPI waits: at full speed, on a core of its own.
  void send(const std::vector<std::pair<int, std::span<const std::byte>>>& messages);
  void receive(const std::vector<std::pair<int, std::span<std::byte>>>& messages);
  void signal(int to);         // an empty message
  void wait_signal(int from);  // blocks
  bool try_signal(int from);   // true once per signal; never blocks
  void barrier();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hetpipe::bench
