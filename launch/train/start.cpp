// SPDX-License-Identifier: Apache-2.0
#include "launch/train/start.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <system_error>

#include "base/file.h"
#include "base/index.h"
#include "base/text.h"
#include "launch/command/version.h"
#include "partitioner/plan/optimizer_rule.h"
#include "partitioner/plan/plan_table.h"
#include "partitioner/plan/system.h"

namespace hetpipe {

void check_ranks(const TrainJob& job, std::optional<int> ranks, const std::string& command) {
  const int needed = job.plan.worker_ranks() + job.plan.server_ranks();
  if (!ranks || *ranks == needed || (job.on_allocation && *ranks > needed)) return;
  throw UserError("", format("the plan needs %d ranks, %d workers and %d parameter servers (this "
                             "launch has %d). Start it with one of\n%s",
                             needed, job.plan.worker_ranks(), job.plan.server_ranks(), *ranks,
                             launch_lines(job, command).c_str()));
}

void check_together(const std::vector<RankFacts>& facts, const Roles& roles, const TrainJob& job,
                    const std::string& command) {
  Problems problems;
  std::vector<std::size_t> bound;
  std::vector<std::size_t> small;
  for (std::size_t r = 0; r < facts.size(); ++r) {
    if (!roles.of_rank[r].worker) continue;
    if (static_cast<int>(facts[r].cores.size()) >= job.threads) continue;
    (facts[r].online >= job.threads ? bound : small).push_back(r);
  }
  if (!bound.empty()) {
    problems.add(
        "--threads",
        format("%d, and the launcher has bound %s to %zu core%s (threads that share a core are "
               "slower than one). Bind ranks to as many cores as they have threads, "
               "or not at all:\n%s",
               job.threads, named(bound, facts).c_str(), facts[bound[0]].cores.size(),
               facts[bound[0]].cores.size() == 1 ? "" : "s", launch_lines(job, command).c_str()));
  }
  if (!small.empty()) {
    problems.add("--threads", format("%d, and %s may use %zu cores (threads that share a core are "
                                     "slower than one). Give --threads %zu at most.",
                                     job.threads, named(small, facts).c_str(),
                                     facts[small[0]].cores.size(), facts[small[0]].cores.size()));
  }
  if (job.emulates() && job.cluster->emulated()) {
    std::vector<std::size_t> elsewhere;
    for (std::size_t r = 1; r < facts.size(); ++r) {
      if (facts[r].boot != facts[0].boot) elsewhere.push_back(r);
    }
    if (!elsewhere.empty()) {
      problems.add("", format("%s: not on the machine of rank 0 on %s (an emulated cluster "
                              "shares one machine's clock). Start all ranks on one machine.",
                              named(elsewhere, facts).c_str(), facts[0].host.c_str()));
    }
  }
  problems.throw_if_any();
}

std::string shared_cores(const std::vector<RankFacts>& facts, const Roles& roles,
                         const TrainJob& job) {
  if (job.time || (job.cluster && job.cluster->emulated())) return {};
  struct Host {
    std::set<int> cores;
    int workers = 0;
  };
  std::map<std::string, Host> hosts;
  for (std::size_t r = 0; r < facts.size(); ++r) {
    if (!roles.of_rank[r].worker) continue;
    Host& host = hosts[facts[r].host];
    host.cores.insert(facts[r].cores.begin(), facts[r].cores.end());
    ++host.workers;
  }
  std::vector<std::string> texts;
  for (const auto& [name, host] : hosts) {
    const int threads = host.workers * job.threads;
    if (threads > static_cast<int>(host.cores.size())) {
      texts.push_back(format("%d worker threads on %s share %zu cores", threads, name.c_str(),
                             host.cores.size()));
    }
  }
  if (texts.empty()) return {};
  return join(texts, "; ") + " (each device runs slower than it would alone)";
}

std::string links_without_time(const TrainJob& job, const Roles& roles) {
  if (!job.emulates()) return {};
  const LinkTable emulated = make_link_table(*job.cluster, roles);
  bool any = false;
  std::set<std::string> without;
  for (int a = 0; a < emulated.ranks; ++a) {
    const Role& from = roles.of_rank[at(a)];
    any |= from.worker && job.cluster->kind_of(from.worker->device).emulate.has_value();
    for (int b = 0; b < emulated.ranks; ++b) {
      if (a == b || emulated.link(Rank{a}, Rank{b})) continue;
      const bool inside = from.node == roles.of_rank[at(b)].node;
      without.insert(inside ? "[link.intra_node]" : "[link.inter_node]");
    }
  }
  if (!any || without.empty()) return {};
  const std::vector<std::string> sorted(without.begin(), without.end());
  const std::string all = join(sorted, " and ");
  return "devices are emulated and " + all +
         " of the cluster file not (messages take this machine's time, predictions count the "
         "file's). Add emulate = true to " +
         all + " to rehearse links too.";
}

std::string unlike_replicas(const TrainJob& job, const Roles& roles,
                            const std::vector<RankDevice>& devices) {
  if (!optimizer_named(job.plan.optimizer).orthogonal) return {};
  const bool waves = traits(composition(job.plan).sync).stage == StageSync::waves;
  // Of those that add up gradients of a layer: of one virtual worker, or of all.
  std::map<std::pair<int, int>, std::set<std::string>> groups;
  for (std::size_t r = 0; r < roles.of_rank.size(); ++r) {
    const auto& worker = roles.of_rank[r].worker;
    if (!worker) continue;
    const int vw = worker->virtual_worker.value;
    for (const StageId stage : worker->stages) {
      const PlanStage& of = job.plan.virtual_workers[at(vw)].stages[at(stage.value)];
      for (int l = of.first_layer; l < of.end_layer; ++l) {
        groups[{waves ? vw : 0, l}].insert(devices[r].text);
      }
    }
  }
  for (const auto& [group, kinds] : groups) {
    if (kinds.size() < 2) continue;
    const std::vector<std::string> names(kinds.begin(), kinds.end());
    return job.plan.optimizer + " makes updates that differ in their last bits between " +
           join(names, " and ") + ", which share parameters: their weights drift apart" +
           (waves ? " between two snapshots" : "") +
           ". Another --optimizer makes the same ones on every device.";
  }
  return {};
}

std::string launch_lines(const TrainJob& job, const std::string& command) {
  // Without a cluster file the hosts are not known, and with a simulated clock they do not matter:
  // the lines are those of one machine.
  Cluster cluster = job.cluster.value_or(Cluster{});
  if (!job.cluster || job.time) cluster.intra_node.emulate = true;
  return "  " + mpirun_line(job.plan, cluster, command, job.threads) + "\n  " +
         srun_line(job.plan, cluster, command, job.threads);
}

Roles decide_roles(const TrainJob& job, const std::vector<RankFacts>& facts,
                   const std::string& command) {
  const std::vector<std::string> hosts = hosts_of(facts);
  const bool one_host = std::set<std::string>(hosts.begin(), hosts.end()).size() == 1;
  const bool in_order =
      !job.on_allocation && (job.time || (job.cluster ? job.cluster->emulated() : one_host));
  try {
    return assign_roles(job.plan, hosts, in_order ? Matching::plan_order : Matching::hosts);
  } catch (const UserError& error) {
    std::vector<Problem> problems = error.problems();
    problems.back().text += "\n" + launch_lines(job, command);
    throw UserError(std::move(problems));
  }
}

std::string banner(const TrainJob& job, const Roles& roles, const std::vector<RankFacts>& facts,
                   const std::vector<RankDevice>& devices) {
  Table table({"rank", "host", "pid", "device", "kind", "memory", "cores", "role"});
  for (std::size_t r = 0; r < facts.size(); ++r) {
    const Role& role = roles.of_rank[r];
    std::string device = "-";
    std::string kind = role.shard ? "server" : "-";
    double memory = static_cast<double>(facts[r].memory);
    if (role.worker) {
      device = to_string(role.worker->device);
      kind = devices[r].text;
      if (devices[r].memory > 0) memory = static_cast<double>(devices[r].memory);
      if (job.cluster) {
        const DeviceKind& of = job.cluster->kind_of(role.worker->device);
        kind = of.name + (of.emulate || job.time ? "" : " (" + kind + ")");
        if (job.time) {
          kind += " (" + devices[r].text + ", simulated)";
          memory = static_cast<double>(of.memory) * of.gpus;
        } else if (of.emulate) {
          kind += format(" (%s, %gx slower)", devices[r].text.c_str(), of.emulate->slowdown);
          memory = static_cast<double>(of.memory) * of.gpus;
        }
      }
    }
    table.add({std::to_string(r), facts[r].host, std::to_string(facts[r].pid), device, kind,
               format_bytes(memory), std::to_string(facts[r].cores.size()), to_string(role)});
  }
  return table.text("  ");
}

}  // namespace hetpipe
