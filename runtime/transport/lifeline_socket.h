// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/unique_handle.h"

// The sockets under the lifeline: the only door to them.
namespace hetpipe {

struct SocketTraits {
  using Handle = int;
  static Handle empty() { return -1; }
  static void close(Handle descriptor) noexcept;
};
using Socket = UniqueHandle<SocketTraits>;

enum class Reach { this_machine, all_machines };

struct Listener {
  Socket socket;
  int port = 0;
};
Listener listen_for(Reach reach);          // SystemError
std::vector<std::string> own_addresses();  // except loopback and link-local ones
// The first of the addresses that answers within the time; SystemError with the error of each.
Socket connect_to(const std::vector<std::string>& addresses, int port, double seconds_each);
// Why this host has no route to any of the addresses ("10.0.0.7: Network is unreachable"), as far
// as it can tell without sending anything; empty: it knows one, or there is no address.
std::string why_no_route(const std::vector<std::string>& addresses);
std::optional<Socket> try_accept(const Socket& listener);

// One connection with frames on it: a kind and some bytes. Never blocks.
class FrameStream {
 public:
  explicit FrameStream(Socket socket);
  int descriptor() const { return socket_.get(); }

  struct Frame {
    std::uint32_t kind = 0;
    std::vector<std::byte> bytes;
  };
  void send(std::uint32_t kind, std::span<const std::byte> bytes = {});
  bool sending() const { return !out_.empty(); }
  void flush();
  // What has come in whole. Afterwards ended() says whether the other end is gone.
  std::vector<Frame> receive();
  // The first frame of all, once it is there, from one who may be anybody: nothing behind it is
  // read, and one of more than `largest` bytes ends the connection.
  std::optional<Frame> receive_first(std::size_t largest);
  bool ended() const { return ended_; }

 private:
  std::size_t receive_some(std::byte* block, std::size_t size);

  Socket socket_;
  std::vector<std::byte> in_;
  std::vector<std::byte> out_;
  bool ended_ = false;
};

}  // namespace hetpipe
