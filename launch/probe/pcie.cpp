// SPDX-License-Identifier: Apache-2.0
#include "launch/probe/pcie.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "base/text.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// Transfers per second and lane (10^9) of generations 1, 2, ...
constexpr std::array kSpeeds{2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0};

// The leading number; 0 where there is none, or no such file.
double number_in(const fs::path& file) {
  std::ifstream stream(file);
  double value = 0;
  stream >> value;
  return stream ? value : 0;
}

// Of one end alone.
std::optional<PcieLink> end_of(const fs::path& folder) {
  const double speed = number_in(folder / "max_link_speed");  // "16.0 GT/s PCIe"
  const auto lanes = static_cast<int>(number_in(folder / "max_link_width"));
  const auto at = std::find(kSpeeds.begin(), kSpeeds.end(), speed);
  if (at == kSpeeds.end() || lanes <= 0) return std::nullopt;
  return PcieLink{static_cast<int>(at - kSpeeds.begin()) + 1, lanes};
}

}  // namespace

std::string to_string(const PcieLink& link) {
  return format("%d.0 x%d", link.generation, link.lanes);
}

std::optional<PcieLink> pcie_link_of(const fs::path& device) {
  std::error_code error;
  const fs::path folder = fs::canonical(device, error);  // below that of the port
  if (error) return std::nullopt;
  const std::optional<PcieLink> card = end_of(folder);
  const std::optional<PcieLink> port = end_of(folder.parent_path());
  if (!card || !port) return card;
  return PcieLink{std::min(card->generation, port->generation), std::min(card->lanes, port->lanes)};
}

}  // namespace hetpipe
