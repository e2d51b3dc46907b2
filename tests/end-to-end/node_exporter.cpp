// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/node_exporter.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file_descriptor.h"
#include "base/text.h"
#include "tests/main/patience.h"

namespace hetpipe::test {
namespace {

constexpr const char* kProgram = "prometheus-node-exporter";  // as Debian calls it

sockaddr_in here(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

int free_port() {
  const OpenFile taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = here(0);
  socklen_t size = sizeof address;
  ::bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

}  // namespace

bool NodeExporter::is_installed() {
  return std::system(format("command -v %s > /dev/null", kProgram).c_str()) == 0;
}

NodeExporter::NodeExporter(const std::filesystem::path& folder) : port_(free_port()) {
  const std::string address = format("--web.listen-address=127.0.0.1:%d", port_);
  const std::string files = "--collector.textfile.directory=" + folder.string();
  process_ = ::fork();
  if (process_ != 0) return;
  const int silent = ::open("/dev/null", O_RDWR);
  for (const int stream : {0, 1, 2}) ::dup2(silent, stream);
  ::execlp(kProgram, kProgram, address.c_str(), "--collector.disable-defaults",
           "--collector.textfile", files.c_str(), nullptr);
  ::_exit(127);
}

NodeExporter::~NodeExporter() {
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

std::optional<std::string> NodeExporter::page() const {
  std::string page;
  const bool came = comes_true(
      [&] {
        page = try_page();
        return !page.empty();
      },
      10);
  return came ? std::optional(page) : std::nullopt;
}

std::string NodeExporter::try_page() const {
  const OpenFile connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = here(port_);
  if (::connect(connection.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return "";
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  if (::send(connection.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  std::string answer;
  char part[4096];
  for (ssize_t n = 0; (n = ::recv(connection.get(), part, sizeof part, 0)) > 0;) {
    answer.append(part, static_cast<std::size_t>(n));
  }
  const std::size_t head = answer.find("\r\n\r\n");
  return answer.find(" 200 ") < head ? answer.substr(head + 4) : "";
}

}  // namespace hetpipe::test
