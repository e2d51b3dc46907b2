// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/json.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/toml_file.h"

// Writing the cluster file (docs/files.md).
namespace hetpipe {
namespace {

std::string link_lines(const Link& link, bool with_latency) {
  std::string text = "bandwidth = " + toml_real(link.bandwidth) + "  # bytes/s per direction\n";
  if (with_latency) text += "latency = " + toml_real(link.latency) + "  # s\n";
  if (link.emulate) text += "emulate = true\n";
  return text;
}

// Device kinds may have names that are no bare keys.
std::string key(const std::string& name) {
  const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  });
  return bare ? name : toml_string(name);
}

}  // namespace

std::string to_toml(const Cluster& cluster) {
  std::string text = "format = 1\n";
  for (const DeviceKind& kind : cluster.kinds) {
    text += "\n[device." + key(kind.name) + "]\n";
    text += "memory = " + toml_bytes(kind.memory) + "  # bytes of each GPU\n";
    if (kind.plan_share != kUsualPlanShare) {
      text += "plan_share = " + toml_real(kind.plan_share) + "\n";
    }
    if (kind.peak_flops > 0) text += "peak_flops = " + toml_real(kind.peak_flops) + "\n";
    if (kind.peak_flops_tf32 > 0) {
      text += "peak_flops_tf32 = " + toml_real(kind.peak_flops_tf32) + "\n";
    }
    if (kind.peak_flops_fp16 > 0) {
      text += "peak_flops_fp16 = " + toml_real(kind.peak_flops_fp16) + "\n";
    }
    if (kind.fp32_efficiency != kUsualFp32Efficiency || try_catalogue_kind(kind.name)) {
      text += "fp32_efficiency = " + toml_real(kind.fp32_efficiency) + "\n";
    }
    if (kind.memory_bandwidth > 0) {
      text += "memory_bandwidth = " + toml_real(kind.memory_bandwidth) + "\n";
    }
    if (kind.gpus != 1) text += "gpus = " + std::to_string(kind.gpus) + "\n";
    if (kind.emulate) {
      text += "emulate = { slowdown = " + toml_real(kind.emulate->slowdown);
      if (kind.emulate->of != kEmulatingDevice) text += ", of = \"" + kind.emulate->of + "\"";
      text += " }\n";
    }
  }
  for (const Node& node : cluster.nodes) {
    std::vector<std::string> kinds;
    for (const int kind : node.kinds) {
      kinds.push_back(cluster.kinds[static_cast<std::size_t>(kind)].name);
    }
    text += "\n[[node]]\nname = " + toml_string(node.name) + "\ndevices = " + toml_strings(kinds) +
            "\n";
  }
  text += "\n[link.intra_node]\n" + link_lines(cluster.intra_node, true);
  if (cluster.inter_node.bandwidth > 0) {
    text += "\n[link.inter_node]\n" + link_lines(cluster.inter_node, true);
  }
  for (const LinkBetween& rule : cluster.between) {
    text += "\n[[link.between]]\n";
    text += rule.kinds.empty() ? "nodes = " + toml_strings(rule.nodes) + "\n"
                               : "kinds = " + toml_strings(rule.kinds) + "\n";
    text += link_lines(rule.link, rule.has_latency);
  }
  return text;
}

Json to_json(const Cluster& cluster) { return to_toml(cluster); }

void from_json(const Json& json, Cluster& cluster) {
  cluster = parse_cluster(json.get<std::string>(), "the cluster of another rank");
}

}  // namespace hetpipe
