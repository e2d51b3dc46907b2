// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

// The pool: kinds of device, nodes, links. A plain value, read from and written to a cluster file
// (docs/files.md). Bytes, bytes per second, seconds, flop/s.
namespace hetpipe {

// A device as files and people name it: "node:index".
struct DeviceName {
  std::string node;
  int index = 0;
  auto operator<=>(const DeviceName&) const = default;
};
std::string to_string(const DeviceName& name);
std::optional<DeviceName> try_parse_device(std::string_view text);

struct Emulation {
  double slowdown = 1;  // modelled time = time measured on this machine x slowdown
};

struct DeviceKind {
  std::string name;
  std::int64_t memory = 0;      // of each GPU
  double peak_flops = 0;        // fp32; 0: not given
  double memory_bandwidth = 0;  // 0: not given
  int gpus = 1;                 // a tensor-parallel group acting as one device
  std::optional<Emulation> emulate;
};

struct Node {
  std::string name;
  std::vector<int> kinds;  // of its devices, as indices into Cluster::kinds; may be empty
};

struct Link {
  double bandwidth = 0;  // per direction
  double latency = 0;
  bool emulate = false;  // messages are held back until the modelled time has passed
  double transfer_seconds(double bytes) const { return latency + bytes / bandwidth; }
};

// Caps (or replaces) the link of a pair of kinds, or of a pair of nodes.
struct LinkBetween {
  std::vector<std::string> kinds;  // two, or empty
  std::vector<std::string> nodes;  // two, or empty
  Link link;
};

struct Cluster {
  std::vector<DeviceKind> kinds;
  std::vector<Node> nodes;
  Link intra_node;
  Link inter_node;
  std::vector<LinkBetween> between;

  std::optional<NodeId> find_node(std::string_view name) const;
  const DeviceKind& kind_of(const DeviceName& device) const;  // ensures that it exists
  bool has(const DeviceName& device) const;
  std::vector<DeviceName> devices() const;  // node by node
  bool emulated() const;                    // any device kind or link is

  // The link that a transfer between two devices takes (same node: intra_node; `between` applied).
  // A parameter server is a DeviceName with its node's name and index -1: `between` rules by kind
  // do not apply to it.
  Link link(const DeviceName& from, const DeviceName& to) const;
};

// All problems of the file at once, each with file:line (UserError).
Cluster parse_cluster(std::string_view text, const std::string& file);
Cluster load_cluster(const std::filesystem::path& path);
std::string to_toml(const Cluster& cluster);

}  // namespace hetpipe
