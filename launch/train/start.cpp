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
#include "base/text.h"
#include "launch/version.h"
#include "partitioner/plan/plan_table.h"

namespace hetpipe {

RankFacts facts_of_this_rank() {
  RankFacts facts;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  facts.host = host;
  facts.pid = static_cast<int>(getpid());
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &cores)) facts.cores.push_back(core);
    }
  }
  facts.online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.memory = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  facts.build = build_hash();
  facts.boot = read_file("/proc/sys/kernel/random/boot_id");
  while (!facts.boot.empty() && facts.boot.back() == '\n') facts.boot.pop_back();
  facts.place = facts.boot;
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/pid"}) {
    std::error_code none;  // a kernel without namespaces has one of each
    facts.place += " " + std::filesystem::read_symlink(space, none).string();
  }
  return facts;
}

namespace {

// "key = value" lines of a configuration, but for what may differ from rank to rank.
std::map<std::string, std::string> settings(const std::string& configuration) {
  std::map<std::string, std::string> result;
  for (const std::string& line : split(configuration, '\n')) {
    const std::size_t equals = line.find(" = ");
    if (line.starts_with('#') || equals == std::string::npos) continue;
    result[line.substr(0, equals)] = line.substr(equals + 3);
  }
  result.erase("data");
  return result;
}

// "--epochs 2 (rank 0: --epochs 1)", for each option that differs.
std::string differences(const std::string& there, const std::string& at_rank_0) {
  const auto theirs = settings(there);
  const auto ours = settings(at_rank_0);
  std::set<std::string> names;
  for (const auto& [name, value] : theirs) names.insert(name);
  for (const auto& [name, value] : ours) names.insert(name);
  const auto said = [](const auto& options, const std::string& name) {
    const auto found = options.find(name);
    return found == options.end() ? "no --" + name : "--" + name + " " + found->second;
  };
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    const std::string their = said(theirs, name);
    const std::string our = said(ours, name);
    if (their != our) texts.push_back(their + " (rank 0 with " + our + ")");
  }
  return join(texts, ", ");
}

}  // namespace

std::string named(const std::vector<std::size_t>& ranks, const std::vector<RankFacts>& facts) {
  const auto listed = [](const std::vector<std::string>& words) {
    if (words.size() == 1) return words[0];
    return join(std::span(words).first(words.size() - 1), ", ") + " and " + words.back();
  };
  std::vector<std::string> numbers;
  std::vector<std::string> hosts;
  for (const std::size_t r : ranks) {
    numbers.push_back(std::to_string(r));
    if (std::find(hosts.begin(), hosts.end(), facts[r].host) == hosts.end()) {
      hosts.push_back(facts[r].host);
    }
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + listed(numbers) + " on " + listed(hosts);
}

void check_alike(const std::vector<RankFacts>& facts) {
  std::vector<std::size_t> other_build;
  std::map<std::string, std::vector<std::size_t>> other_options;
  for (std::size_t r = 1; r < facts.size(); ++r) {
    if (facts[r].build != facts[0].build) other_build.push_back(r);
    const std::string text = differences(facts[r].configuration, facts[0].configuration);
    if (!text.empty()) other_options[text].push_back(r);
  }
  Problems problems;
  if (!other_build.empty()) {
    problems.add("", format("%s: another build of hetpipe than rank 0 on %s (mixed builds do not "
                            "understand each other). Install one build on all hosts.",
                            named(other_build, facts).c_str(), facts[0].host.c_str()));
    problems.throw_if_any();  // another build may well have other options
  }
  for (const auto& [text, ranks] : other_options) {
    problems.add("", named(ranks, facts) + ": called with " + text +
                         ". All ranks of a run do the same: start them with the same options.");
  }
  problems.throw_if_any();
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
  if (job.cluster && job.cluster->emulated()) {
    std::vector<std::size_t> elsewhere;
    for (std::size_t r = 1; r < facts.size(); ++r) {
      if (facts[r].boot != facts[0].boot) elsewhere.push_back(r);
    }
    if (!elsewhere.empty()) {
      problems.add("", format("%s: another machine than that of rank 0 on %s (an emulated cluster "
                              "shares one machine's clock). Start all ranks on one machine.",
                              named(elsewhere, facts).c_str(), facts[0].host.c_str()));
    }
  }
  problems.throw_if_any();
}

std::string shared_cores(const std::vector<RankFacts>& facts, const Roles& roles,
                         const TrainJob& job) {
  if (job.cluster && job.cluster->emulated()) return {};
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
  return join(texts, "; ") + " (each device is slower than it would be alone)";
}

std::string launch_lines(const TrainJob& job, const std::string& command) {
  // Without a cluster file nobody knows the hosts: the lines are those of one machine.
  Cluster cluster = job.cluster.value_or(Cluster{});
  if (!job.cluster) cluster.intra_node.emulate = true;
  return "  " + mpirun_line(job.plan, cluster, command, job.threads) + "\n  " +
         srun_line(job.plan, cluster, command, job.threads);
}

std::vector<std::string> hosts_of(const std::vector<RankFacts>& facts) {
  std::vector<std::string> hosts;
  for (const RankFacts& rank : facts) hosts.push_back(rank.host);
  return hosts;
}

Roles decide_roles(const TrainJob& job, const std::vector<RankFacts>& facts,
                   const std::string& command) {
  const std::vector<std::string> hosts = hosts_of(facts);
  const bool one_host = std::set<std::string>(hosts.begin(), hosts.end()).size() == 1;
  const bool in_order = !job.on_allocation && (job.cluster ? job.cluster->emulated() : one_host);
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
        kind = of.name + (of.emulate ? "" : " (" + kind + ")");
        if (of.emulate) {
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
