// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/lifeline_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::uint32_t kLargestFrame = 1 << 20;

struct FrameHead {
  std::uint32_t kind = 0;
  std::uint32_t bytes = 0;
};

[[noreturn]] void fail(const char* call) {
  throw SystemError(format("%s: %s", call, std::strerror(errno)));
}

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

Address make_address(const std::string& text, int port) {
  Address address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (::inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(static_cast<std::uint16_t>(port));
    address.size = sizeof *v4;
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(static_cast<std::uint16_t>(port));
    address.size = sizeof *v6;
  } else {
    throw SystemError("not an address: " + text);
  }
  return address;
}

Socket try_listen(const std::string& address_text, int& port) {
  Address address = make_address(address_text, 0);
  const int family = address.storage.ss_family;
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return socket;
  const int no = 0;
  if (family == AF_INET6) {  // IPv4 comes in here too
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  }
  if (::bind(socket.get(), address.get(), address.size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0 ||
      ::getsockname(socket.get(), address.get(), &address.size) != 0) {
    return {};
  }
  port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port
                                  : reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port);
  return socket;
}

// Empty when connected; what is the matter otherwise.
std::string try_connect(const Socket& socket, Address& address, double seconds) {
  if (::connect(socket.get(), address.get(), address.size) == 0) return "";
  if (errno != EINPROGRESS) return std::strerror(errno);
  pollfd wanted{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  const int ready = ::poll(&wanted, 1, static_cast<int>(seconds * 1e3));
  if (ready == 0) return format("no answer within %.0f s", seconds);
  if (ready < 0) return std::strerror(errno);
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? "" : std::strerror(error);
}

}  // namespace

void SocketTraits::close(Handle descriptor) noexcept { ::close(descriptor); }

Listener listen_for(Reach reach) {
  Listener listener;
  if (reach == Reach::this_machine) {
    listener.socket = try_listen("127.0.0.1", listener.port);
  } else {
    listener.socket = try_listen("::", listener.port);
    if (!listener.socket) listener.socket = try_listen("0.0.0.0", listener.port);
  }
  if (!listener.socket) fail("listen");
  return listener;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) fail("getifaddrs");
  for (const ifaddrs* next = first; next != nullptr; next = next->ifa_next) {
    if (next->ifa_addr == nullptr || (next->ifa_flags & IFF_UP) == 0 ||
        (next->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    char text[INET6_ADDRSTRLEN] = "";
    if (next->ifa_addr->sa_family == AF_INET) {
      const auto* v4 = reinterpret_cast<const sockaddr_in*>(next->ifa_addr);
      ::inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
      addresses.emplace(addresses.begin(), text);  // the likelier ones first
    } else if (next->ifa_addr->sa_family == AF_INET6) {
      const auto* v6 = reinterpret_cast<const sockaddr_in6*>(next->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) continue;
      ::inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
      addresses.emplace_back(text);
    }
  }
  ::freeifaddrs(first);
  return addresses;
}

Socket connect_to(const std::vector<std::string>& addresses, int port, double seconds_each) {
  std::vector<std::string> complaints;
  for (const std::string& text : addresses) {
    Address address = make_address(text, port);
    Socket socket(
        ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const std::string complaint =
        socket ? try_connect(socket, address, seconds_each) : std::strerror(errno);
    if (complaint.empty()) return socket;
    complaints.push_back(format("%s port %d: %s", text.c_str(), port, complaint.c_str()));
  }
  throw SystemError(complaints.empty() ? "no address to connect to" : join(complaints, ", "));
}

std::string why_no_route(const std::vector<std::string>& addresses) {
  constexpr int kAnyPort = 9;
  std::vector<std::string> complaints;
  for (const std::string& text : addresses) {
    Address address = make_address(text, kAnyPort);
    // Connecting a datagram socket looks the way up, and no more.
    const Socket socket(::socket(address.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket && ::connect(socket.get(), address.get(), address.size) == 0) return "";
    complaints.push_back(text + ": " + std::strerror(errno));
  }
  return join(complaints, ", ");
}

std::optional<Socket> try_accept(const Socket& listener) {
  Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) return socket;
  return std::nullopt;
}

FrameStream::FrameStream(Socket socket) : socket_(std::move(socket)) {
  const int yes = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

void FrameStream::send(std::uint32_t kind, std::span<const std::byte> bytes) {
  ensure(bytes.size() <= kLargestFrame, "a frame is too large");
  const FrameHead head{kind, static_cast<std::uint32_t>(bytes.size())};
  const auto* from = reinterpret_cast<const std::byte*>(&head);
  out_.insert(out_.end(), from, from + sizeof head);
  out_.insert(out_.end(), bytes.begin(), bytes.end());
  flush();
}

void FrameStream::flush() {
  while (!out_.empty() && !ended_) {
    const ssize_t sent = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      out_.erase(out_.begin(), out_.begin() + sent);
    } else if (errno != EINTR) {
      // Its end is seen by receive(), after what it had to say.
      if (errno != EAGAIN && errno != EWOULDBLOCK) out_.clear();
      return;
    }
  }
}

// How many bytes; 0: there is nothing now, and with ended_ there will be nothing any more.
std::size_t FrameStream::receive_some(std::byte* block, std::size_t size) {
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), block, size, 0);
    if (got > 0) return static_cast<std::size_t>(got);
    if (got < 0 && errno == EINTR) continue;
    ended_ = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    return 0;
  }
}

std::optional<FrameStream::Frame> FrameStream::receive_first(std::size_t largest) {
  while (!ended_) {
    std::size_t wanted = sizeof(FrameHead);
    const std::size_t before = in_.size();
    if (before >= sizeof(FrameHead)) {
      FrameHead head;
      std::memcpy(&head, in_.data(), sizeof head);
      ended_ = head.bytes > largest;
      if (ended_) break;
      wanted += head.bytes;
      if (before == wanted) {
        Frame frame{head.kind, {in_.begin() + sizeof head, in_.end()}};
        in_.clear();
        return frame;
      }
    }
    in_.resize(wanted);
    in_.resize(before + receive_some(in_.data() + before, wanted - before));
    if (in_.size() == before) break;
  }
  return std::nullopt;
}

std::vector<FrameStream::Frame> FrameStream::receive() {
  std::byte block[4096];
  while (const std::size_t got = ended_ ? 0 : receive_some(block, sizeof block)) {
    in_.insert(in_.end(), block, block + got);
  }
  std::vector<Frame> frames;
  std::size_t used = 0;
  while (in_.size() - used >= sizeof(FrameHead)) {
    FrameHead head;
    std::memcpy(&head, in_.data() + used, sizeof head);
    if (head.bytes > kLargestFrame) {  // not one of ours
      ended_ = true;
      break;
    }
    if (in_.size() - used < sizeof head + head.bytes) break;
    const auto from = in_.begin() + static_cast<std::ptrdiff_t>(used + sizeof head);
    frames.push_back({head.kind, {from, from + head.bytes}});
    used += sizeof head + head.bytes;
  }
  in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(used));
  return frames;
}

}  // namespace hetpipe
