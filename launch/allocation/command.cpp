// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/file.h"
#include "base/text.h"
#include "launch/allocation/slurm.h"
#include "launch/command/options.h"
#include "launch/command/output_file.h"
#include "launch/command/subcommand.h"

namespace hetpipe {
namespace {

struct AllocationOptions {
  std::optional<std::string> pool;
  std::optional<std::string> hosts;
  std::string format = "slurm";
};

OptionTable table_of(AllocationOptions& options) {
  return {
      "allocation",
      "Shows which nodes and GPUs this Slurm job was given, and how many ranks each node gets: one "
      "per GPU, and one for a parameter server on a node without GPUs. Nodes that are down get "
      "none.",
      {{"Output",
        {
            text_option(
                "pool", "FILE", options.pool,
                "Cluster file with the devices of the nodes, where Slurm does not list them."),
            text_option("hosts", "FILE", options.hosts,
                        "Also writes a host file for the launcher."),
            choice_option("format", options.format, {"slurm", "openmpi"},
                          "Format of the host file: one line per rank, for SLURM_HOSTFILE and srun "
                          "--distribution=arbitrary (slurm); one line per node with its slots, for "
                          "mpirun --hostfile (openmpi)."),
        }}}};
}

std::string host_file(const std::vector<RanksOfNode>& ranks, bool slots) {
  std::string text;
  for (const RanksOfNode& of : ranks) {
    if (slots) {
      text += format("%s slots=%d\n", of.node.c_str(), of.ranks);
    } else {
      for (int i = 0; i < of.ranks; ++i) text += of.node + "\n";
    }
  }
  return text;
}

std::string kinds_of(const Cluster& cluster, const std::string& name) {
  std::vector<std::string> kinds;
  for (const int kind :
       cluster.nodes[static_cast<std::size_t>(cluster.find_node(name)->value)].kinds) {
    const std::string& of = cluster.kinds[static_cast<std::size_t>(kind)].name;
    kinds.push_back(of.empty() ? "gpu" : of);
  }
  return kinds.empty() ? "-" : join(kinds, ", ");
}

}  // namespace

int allocation_command(const Invocation& how) {
  AllocationOptions options;
  OptionTable table = table_of(options);
  const auto check = [&](Problems& problems) {
    if (options.hosts) check_output_file("--hosts", *options.hosts, problems);
  };
  if (!read_options(table, how, check)) return 0;
  const Allocation allocation = slurm_allocation();
  const Cluster cluster = options.pool
                              ? cluster_of(allocation, load_cluster(*options.pool), *options.pool)
                              : plain_cluster(allocation);
  const std::vector<RanksOfNode> ranks = ranks_of_nodes(cluster);
  if (ranks.empty()) throw SystemError("no node of " + allocation.of + " is up");
  if (options.hosts) write_file(*options.hosts, host_file(ranks, options.format == "openmpi"));
  Table nodes({"node", "devices", "ranks"});
  for (const RanksOfNode& of : ranks) {
    nodes.add({of.node, kinds_of(cluster, of.node), std::to_string(of.ranks)});
  }
  std::printf("%s\n%s", allocation.of.c_str(), nodes.text("  ").c_str());
  for (const AllocatedNode& node : allocation.nodes) {
    if (!node.answers) std::printf("  %s is down\n", node.name.c_str());
  }
  return 0;
}

}  // namespace hetpipe
