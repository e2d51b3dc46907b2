// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

namespace hetpipe::test {

// Prometheus' node exporter, serving the files of a folder alone, on a free port of this machine.
class NodeExporter {
 public:
  static bool is_installed();

  explicit NodeExporter(const std::filesystem::path& folder);
  ~NodeExporter();  // ends it
  NodeExporter(const NodeExporter&) = delete;
  NodeExporter& operator=(const NodeExporter&) = delete;

  // The page that a Prometheus would scrape; nothing where none comes in time.
  std::optional<std::string> page() const;

 private:
  std::string try_page() const;

  int port_ = 0;
  pid_t process_ = -1;
};

}  // namespace hetpipe::test
