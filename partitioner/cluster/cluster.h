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

// The pool: device types, nodes, links. A plain value, read from and written to a cluster file
// (docs/files.md). Bytes, bytes per second, seconds, flop/s.
namespace hetpipe {

class Json;

// A device by its name in files and messages: "node:index".
struct DeviceName {
  std::string node;
  int index = 0;
  auto operator<=>(const DeviceName&) const = default;
};
std::string to_string(const DeviceName& name);
std::optional<DeviceName> try_parse_device(std::string_view text);

// The device whose speed emulated types are relative to by default: this machine's.
inline constexpr const char* kEmulatingDevice = "cpu";

struct Emulation {
  double slowdown = 1;                // modelled time = time measured on this machine x slowdown
  std::string of = kEmulatingDevice;  // the device of the profile whose time that is
  bool operator==(const Emulation&) const = default;
};

// The share of its fp32 peak that a device reaches in large matrix products, by
// default.
inline constexpr double kUsualFp32Efficiency = 0.85;

// The share of the peak of tensor cores that large products reach, by default: published
// measurements lie between 0.5 and 0.82 (A100, B200, V100, GA102).
inline constexpr double kUsualTensorEfficiency = 0.7;

// The share of the stated memory bandwidth that streaming kernels reach, by default.
inline constexpr double kUsualMemoryEfficiency = 0.8;

// Bytes/s at which the GPUs of a group gather what each has received a part of, where a cluster
// file does not say. Assumed, not measured: docs/measured.md.
inline constexpr double kAssumedGatherBandwidth = 12e9;

// The share of a device's memory that plans may take, by default: a ledger
// (cost/memory.h) is right within a few hundredths.
inline constexpr double kUsualPlanShare = 0.95;

// Rates are those of each GPU and used only for estimates; 0: not given.
struct DeviceKind {
  std::string name;
  std::int64_t memory = 0;     // of each GPU
  double plan_share = 1;       // of the memory: what plans may take
  double peak_flops = 0;       // fp32
  double peak_flops_tf32 = 0;  // dense; 0: no faster than fp32
  double peak_flops_fp16 = 0;  // dense, fp32 accumulation; 0: no faster than fp32
  double fp32_efficiency = kUsualFp32Efficiency;
  double memory_bandwidth = 0;
  int gpus = 1;  // a tensor-parallel group acting as one device
  std::optional<Emulation> emulate;
  std::string catalogue = {};  // the catalogue's entry that it is made of; empty: that of its name
  std::optional<double> launch_latency = {};  // s that an operation takes at least; nothing: as the
                                              // runtime (profile/roofline.h)
  double tensor_efficiency = kUsualTensorEfficiency;  // of peak_flops_tf32 and peak_flops_fp16
  double memory_efficiency = kUsualMemoryEfficiency;  // of memory_bandwidth
  std::int64_t for_plans() const;                     // bytes
  bool operator==(const DeviceKind&) const = default;
};

// "11.4 MB (95 % of 12.0 MB)"
std::string memory_for_plans(const DeviceKind& kind);

struct Node {
  std::string name;
  std::vector<int> kinds;  // of its devices, as indices into Cluster::kinds; may be empty
  bool operator==(const Node&) const = default;
};

struct Link {
  double bandwidth = 0;  // per direction
  double latency = 0;
  bool emulate = false;  // messages are held back until the modelled time has passed
  // Of intra_node alone: at which the GPUs of a group gather the parts of what they received (under
  // runtime megatron-deepspeed); 0: not given, kAssumedGatherBandwidth.
  double gather_bandwidth = 0;
  double transfer_seconds(double bytes) const { return latency + bytes / bandwidth; }
  double gather() const {  // bytes/s
    return gather_bandwidth > 0 ? gather_bandwidth : kAssumedGatherBandwidth;
  }
  bool operator==(const Link&) const = default;
};

// Replaces the link of a pair of kinds, or of a pair of nodes (which goes before one of kinds). The
// replaced link's latency stays when the file gives none, and it stays emulated if it was.
struct LinkBetween {
  std::vector<std::string> kinds;  // two, or empty
  std::vector<std::string> nodes;  // two, or empty
  Link link;
  bool has_latency = true;
  bool operator==(const LinkBetween&) const = default;
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
  // Ensures that both nodes exist.
  Link link(const DeviceName& from, const DeviceName& to) const;
  bool operator==(const Cluster&) const = default;
};

// All problems of the file at once, each with file:line (UserError).
Cluster parse_cluster(std::string_view text, const std::string& file);
Cluster load_cluster(const std::filesystem::path& path);
// Where a cluster file declares a device type, or first uses one of the catalogue: "lab.toml:7".
std::string place_of_kind(const std::filesystem::path& path, const std::string& kind);
std::string to_toml(const Cluster& cluster);
// By way of that text.
Json to_json(const Cluster& cluster);
void from_json(const Json& json, Cluster& cluster);

// "n[0-2,7]" -> n0 n1 n2 n7; "n[08-10]" keeps the padding; several brackets and commas as in
// Slurm's host lists. Nothing when the brackets do not pair up, hold no ranges, or name more than
// 65536 hosts, or one of more than 255 letters.
std::optional<std::vector<std::string>> try_expand_host_list(std::string_view text);

}  // namespace hetpipe
