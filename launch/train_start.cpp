// SPDX-License-Identifier: Apache-2.0
#include "launch/train_start.h"

#include <sched.h>
#include <unistd.h>

#include <set>

#include "base/file.h"
#include "base/text.h"
#include "launch/version.h"

namespace hetpipe {

RankFacts facts_of_this_rank() {
  RankFacts facts;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  facts.host = host;
  facts.pid = static_cast<int>(getpid());
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) facts.cores = CPU_COUNT(&cores);
  facts.memory = std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  facts.build = build_hash();
  facts.boot = read_file("/proc/sys/kernel/random/boot_id");
  while (!facts.boot.empty() && facts.boot.back() == '\n') facts.boot.pop_back();
  return facts;
}

void check_together(const std::vector<RankFacts>& facts, const TrainJob& job, Problems& problems) {
  for (std::size_t r = 1; r < facts.size(); ++r) {
    if (facts[r].build != facts[0].build) {
      problems.add(
          "",
          format(
              "rank %zu on %s runs another build of hetpipe than rank 0 on %s (mixed builds do not "
              "understand each other). Install one build on all hosts.",
              r, facts[r].host.c_str(), facts[0].host.c_str()));
    }
  }
  if (!job.cluster || !job.cluster->emulated()) return;
  for (std::size_t r = 1; r < facts.size(); ++r) {
    if (facts[r].boot != facts[0].boot) {
      problems.add("", format("rank %zu runs on %s and rank 0 on %s (an emulated cluster shares "
                              "one machine's clock). Start all "
                              "ranks on one machine.",
                              r, facts[r].host.c_str(), facts[0].host.c_str()));
      break;
    }
  }
}

Roles decide_roles(const TrainJob& job, const std::vector<RankFacts>& facts) {
  std::vector<std::string> hosts;
  for (const RankFacts& rank : facts) hosts.push_back(rank.host);
  const bool one_host = std::set<std::string>(hosts.begin(), hosts.end()).size() == 1;
  const bool in_order = job.cluster ? job.cluster->emulated() : one_host;
  return assign_roles(job.plan, hosts, in_order ? Matching::plan_order : Matching::hosts);
}

std::string banner(const TrainJob& job, const Roles& roles, const std::vector<RankFacts>& facts) {
  Table table({"rank", "host", "pid", "device", "kind", "memory", "cores", "role"});
  for (std::size_t r = 0; r < facts.size(); ++r) {
    const Role& role = roles.of_rank[r];
    std::string device = "-";
    std::string kind = "server";
    double memory = static_cast<double>(facts[r].memory);
    if (role.worker) {
      device = to_string(role.worker->device);
      kind = job.device;
      if (job.cluster) {
        const DeviceKind& of = job.cluster->kind_of(role.worker->device);
        kind = of.name;
        if (of.emulate) {
          kind += format(" (%s, %gx slower)", job.device.c_str(), of.emulate->slowdown);
          memory = static_cast<double>(of.memory) * of.gpus;
        }
      }
    }
    table.add({std::to_string(r), facts[r].host, std::to_string(facts[r].pid), device, kind,
               format_bytes(memory), std::to_string(facts[r].cores), to_string(role)});
  }
  return table.text("  ");
}

}  // namespace hetpipe
