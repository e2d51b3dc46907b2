// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace hetpipe {

struct PcieLink {
  int generation = 0;
  int lanes = 0;
  bool operator==(const PcieLink&) const = default;
};
std::string to_string(const PcieLink& link);  // "4.0 x16"

// The maximum that a card and the port above it support, from Linux: an idle card lowers
// its speed for the moment. `device`: "/sys/bus/pci/devices/0000:3b:00.0". Nothing where Linux does
// not say, as in some containers.
std::optional<PcieLink> pcie_link_of(const std::filesystem::path& device);

}  // namespace hetpipe
