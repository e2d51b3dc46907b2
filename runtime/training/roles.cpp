// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/roles.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/host_name.h"
#include "base/index.h"
#include "base/text.h"

namespace hetpipe {
namespace {

// Roles in plan order: workers, then servers that are not hosted.
std::vector<Role> roles_in_plan_order(const Plan& plan) {
  std::vector<Role> roles;
  for (std::size_t i = 0; i < plan.virtual_workers.size(); ++i) {
    const auto& stages = plan.virtual_workers[i].stages;
    std::map<DeviceName, std::size_t> role_of;  // of this virtual worker's devices
    for (std::size_t k = 0; k < stages.size(); ++k) {
      for (std::size_t r = 0; r < stages[k].devices.size(); ++r) {
        const DeviceName& device = stages[k].devices[r];
        const auto [found, added] = role_of.try_emplace(device, roles.size());
        if (added) {
          Role& role = roles.emplace_back();
          role.node = device.node;
          role.worker = Role::Worker{.virtual_worker = VirtualWorkerId{static_cast<int>(i)},
                                     .stages = {},
                                     .replica = static_cast<int>(r),
                                     .replicas = static_cast<int>(stages[k].devices.size()),
                                     .device = device};
        }
        roles[found->second].worker->stages.push_back(StageId{static_cast<int>(k)});
      }
    }
  }
  if (!plan.server) return roles;
  for (std::size_t s = 0; s < plan.server->nodes.size(); ++s) {
    const ShardId shard{static_cast<int>(s)};
    const std::string& node = plan.server->nodes[s];
    if (!plan.server->hosted) {
      Role& role = roles.emplace_back();
      role.shard = shard;
      role.node = node;
      continue;
    }
    const auto host = std::find_if(roles.begin(), roles.end(), [&](const Role& role) {
      return role.worker && role.node == node && !role.shard;
    });
    if (host == roles.end()) {
      throw UserError("plan", "parameter server on node '" + node +
                                  "' is hosted (but the plan has no worker there). Name nodes of "
                                  "workers, each once, or set hosted = false.");
    }
    host->shard = shard;
  }
  return roles;
}

std::vector<Role> by_hosts(std::vector<Role> roles, const std::vector<std::string>& hosts) {
  std::map<std::string, std::vector<std::size_t>> ranks_on;  // in rank order
  for (std::size_t r = 0; r < hosts.size(); ++r) ranks_on[short_name(hosts[r])].push_back(r);
  std::vector<std::optional<Role>> placed(hosts.size());
  Problems problems;

  std::map<std::string, std::vector<const Role*>> workers_on;
  for (const Role& role : roles) {
    if (role.worker) workers_on[short_name(role.node)].push_back(&role);
  }
  for (auto& [node, workers] : workers_on) {
    std::sort(workers.begin(), workers.end(), [](const Role* a, const Role* b) {
      return a->worker->device.index < b->worker->device.index;
    });
    const auto& ranks = ranks_on[node];
    if (ranks.size() < workers.size()) {
      std::vector<std::string> names;
      for (const auto& [host, found] : ranks_on) {
        if (!found.empty()) names.push_back(format("%s x%zu", host.c_str(), found.size()));
      }
      problems.add("plan",
                   format("node '%s' has %zu workers (this launch started %zu ranks there; hosts: "
                          "%s). Launch with the "
                          "plan's hosts, name your hosts in the cluster file, or declare its "
                          "devices emulated to "
                          "rehearse here.",
                          node.c_str(), workers.size(), ranks.size(), join(names, ", ").c_str()));
      continue;
    }
    for (std::size_t i = 0; i < workers.size(); ++i) placed[ranks[i]] = *workers[i];
  }
  problems.throw_if_any();
  // Servers whose nodes have a free rank first, so that no other server takes it from them.
  const auto place = [&](const Role& role, bool anywhere) {
    for (std::size_t r = 0; r < placed.size(); ++r) {
      if (!placed[r] && (anywhere || short_name(hosts[r]) == short_name(role.node))) {
        placed[r] = role;
        return true;
      }
    }
    return false;
  };
  std::vector<const Role*> elsewhere;
  for (const Role& role : roles) {
    if (!role.worker && !place(role, false)) elsewhere.push_back(&role);
  }
  for (const Role* role : elsewhere)
    ensure(place(*role, true), "more server roles than ranks left");
  std::vector<Role> result;
  for (std::size_t r = 0; r < placed.size(); ++r) {
    Role spare;
    spare.node = hosts[r];
    result.push_back(placed[r] ? std::move(*placed[r]) : std::move(spare));
  }
  return result;
}

}  // namespace

std::string to_string(const Role::Worker& worker) {
  std::vector<std::string> stages;
  for (const StageId stage : worker.stages) stages.push_back(std::to_string(stage.value));
  std::string text = format("virtual worker %d, stage%s %s", worker.virtual_worker.value,
                            stages.size() > 1 ? "s" : "", join(stages, " and ").c_str());
  if (worker.replicas > 1) text += format(", replica %d", worker.replica);
  return text;
}

std::string to_string(const Role& role) {
  std::string text;
  if (role.worker) {
    text = to_string(*role.worker) + " on " + to_string(role.worker->device);
  }
  if (role.shard) {
    text += format("%sparameter server %d on %s", text.empty() ? "" : " + ", role.shard->value,
                   role.node.c_str());
  }
  return text.empty() ? "spare" : text;
}

Roles assign_roles(const Plan& plan, const std::vector<std::string>& host_of_rank,
                   Matching matching) {
  Roles roles;
  roles.of_rank = roles_in_plan_order(plan);
  ensure(roles.of_rank.size() <= host_of_rank.size(), "as many ranks as the plan needs");
  if (matching == Matching::hosts) roles.of_rank = by_hosts(std::move(roles.of_rank), host_of_rank);
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    std::vector<std::vector<Rank>>& stages = roles.worker.emplace_back();
    for (const PlanStage& stage : vw.stages) stages.emplace_back(stage.devices.size());
  }
  roles.server.resize(plan.server ? plan.server->nodes.size() : 0);
  for (std::size_t r = 0; r < roles.of_rank.size(); ++r) {
    const Rank rank{static_cast<int>(r)};
    const Role& role = roles.of_rank[r];
    if (role.worker) {
      for (const StageId stage : role.worker->stages) {
        roles.worker[at(role.worker->virtual_worker.value)][at(stage.value)]
                    [at(role.worker->replica)] = rank;
      }
    }
    if (role.shard) roles.server[at(role.shard->value)] = rank;
  }
  return roles;
}

LinkTable make_link_table(const Cluster& cluster, const Roles& roles) {
  const int ranks = static_cast<int>(roles.of_rank.size());
  LinkTable table;
  table.ranks = ranks;
  table.links.resize(at(ranks * ranks));
  // Resources: each node's interface out and in, then each directed pair of ranks of one node.
  std::map<std::string, int> interface_out;
  std::map<std::string, int> interface_in;
  const auto number = [&](std::map<std::string, int>& of, const std::string& node) {
    const auto [found, inserted] = of.try_emplace(node, table.resources);
    if (inserted) ++table.resources;
    return found->second;
  };
  const auto seat = [&](int r) {
    const Role& role = roles.of_rank[at(r)];
    return role.worker ? role.worker->device : DeviceName{role.node, -1};
  };
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      if (from == to) continue;
      const DeviceName a = seat(from);
      const DeviceName b = seat(to);
      const Link link = cluster.link(a, b);
      if (!link.emulate) continue;
      EmulatedLink emulated{link.bandwidth, link.latency, {}};
      if (a.node == b.node) {
        emulated.resources = {table.resources++};
      } else {
        emulated.resources = {number(interface_out, a.node), number(interface_in, b.node)};
      }
      table.links[at(from * ranks + to)] = emulated;
    }
  }
  return table;
}

}  // namespace hetpipe
