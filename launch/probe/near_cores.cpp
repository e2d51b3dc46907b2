// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/near_cores.h"

#include <charconv>
#include <fstream>
#include <optional>
#include <string>

#include "base/text.h"

namespace hetpipe {
namespace {

constexpr int kMostCores = 1 << 16;

std::string first_line_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::optional<int> core_number(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return 0 <= value && value < kMostCores ? std::optional(value) : std::nullopt;
}

}  // namespace

std::vector<int> cores_of_list(std::string_view list) {
  std::vector<int> cores;
  if (list.empty()) return cores;
  for (const std::string& part : split(std::string(list), ',')) {
    const std::size_t dash = part.find('-');
    const auto first = core_number(std::string_view(part).substr(0, dash));
    const auto last =
        dash == std::string::npos ? first : core_number(std::string_view(part).substr(dash + 1));
    if (!first || !last) return {};
    for (int core = *first; core <= *last; ++core) cores.push_back(core);
  }
  return cores;
}

std::vector<int> near_cores(int numa_node, const std::filesystem::path& nodes) {
  if (numa_node < 0 || cores_of_list(first_line_in(nodes / "online")).size() < 2) return {};
  return cores_of_list(first_line_in(nodes / format("node%d", numa_node) / "cpulist"));
}

}  // namespace hetpipe
