// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/cluster/device_file.h"
#include "partitioner/toml_file.h"

// Writing the cluster file (docs/files.md).
namespace hetpipe {
namespace {

std::string link_lines(const Link& link, bool with_latency) {
  std::string text = "bandwidth = " + toml_real(link.bandwidth) + "  # bytes/s per direction\n";
  if (with_latency) text += "latency = " + toml_real(link.latency) + "  # s\n";
  if (link.emulate) text += "emulate = true\n";
  if (link.gather_bandwidth > 0) {
    text += "gather_bandwidth = " + toml_real(link.gather_bandwidth) + "\n";
  }
  return text;
}

}  // namespace

std::string to_toml(const Cluster& cluster) {
  std::string text = "format = 1\n";
  for (const DeviceKind& kind : cluster.kinds) {
    text += "\n" + device_lines(kind);
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
