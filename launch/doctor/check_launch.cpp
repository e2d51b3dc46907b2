// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "base/host_name.h"
#include "base/text.h"
#include "launch/allocation/allocation.h"
#include "launch/command/said_of.h"
#include "launch/doctor/checks.h"
#include "launch/launcher/launched.h"

namespace hetpipe {
namespace {

std::string lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : split(text, '\n')) {
    const std::size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos) lines.push_back(line.substr(begin));
  }
  return join(lines, " ");
}

std::size_t hosts_among(const std::vector<DoctorFacts>& facts) {
  std::set<std::string> hosts;
  for (const DoctorFacts& rank : facts) hosts.insert(rank.machine.rank.host);
  return hosts.size();
}

// Another build, which is reported elsewhere, may well have other options.
std::vector<RankFacts> as_one_build(std::vector<RankFacts> ranks) {
  const RankFacts& first = ranks.front();
  for (RankFacts& rank : ranks) {
    if (rank.build == first.build) continue;
    rank.build = first.build;
    rank.configuration = first.configuration;
  }
  return ranks;
}

// Hosts of a cluster that have no rank, where there is no plan to say how many each needs.
std::vector<Problem> hosts_without_ranks(const PlannedRun& run,
                                         const std::vector<DoctorFacts>& facts) {
  std::vector<Problem> problems;
  if (!run.job.cluster || run.job.cluster->emulated()) return problems;
  std::set<std::string> hosts;
  for (const DoctorFacts& rank : facts) {
    const std::string& host = rank.machine.rank.host;
    hosts.insert(short_name(host));
  }
  std::vector<std::string> missing;
  for (const Node& node : run.job.cluster->nodes) {
    if (!hosts.contains(short_name(node.name))) missing.push_back(node.name);
  }
  if (missing.empty()) return problems;
  problems.push_back(
      {run.files,
       format("no rank on %s (the launch has ranks on %s). Start a rank for each device of the "
              "cluster, or name your hosts in the cluster file.",
              join(missing, ", ").c_str(),
              join(std::vector<std::string>(hosts.begin(), hosts.end()), ", ").c_str())});
  return problems;
}

// Each rank a device of the allocation, or a parameter server where none is left.
void compare_with_allocation(const PlannedRun& run, const std::vector<DoctorFacts>& facts,
                             Check& check) {
  const std::size_t devices = run.job.cluster->devices().size();
  if (devices == 0 && !run.from_pool) {
    check.seen += ": the number of devices is not known; hetpipe train measures them";
    return;
  }
  const Seats seats = seats_of(*run.job.cluster, hosts_of(ranks_of(facts)));
  const std::size_t seated = seats.cluster.devices().size();
  check.seen += format(": %zu of %zu devices have a rank, %zu ranks have no device", seated,
                       devices, facts.size() - seated);
  if (seated == 0) {
    check.findings.push_back({Severity::mistake, run.files, "has no device for any of these ranks",
                              "nothing could be trained",
                              "Request GPUs, or list devices of its nodes in --pool FILE."});
    return;
  }
  for (const std::string& note : seats.notes) {
    check.findings.push_back({Severity::note, run.files, note, "devices without a rank stay idle",
                              "The script that hetpipe sbatch writes starts one for each."});
  }
}

}  // namespace

Check check_launch(const std::vector<DoctorFacts>& facts, const std::vector<Problem>& refused,
                   const std::string& srun_offers) {
  const DoctorFacts& first = facts.front();
  const auto version = [&](const char* name) {
    const auto found = first.versions.find(name);
    return found == first.versions.end() ? std::string() : ", " + found->second;
  };
  Check check{"launcher", "", findings_from(Severity::mistake, refused)};
  const int ranks = refused.empty() ? static_cast<int>(facts.size()) : first.started;
  check.seen = format("%s: %d rank%s on %zu host%s%s%s",
                      first.launcher.empty() ? "started by hand" : first.launcher.c_str(), ranks,
                      ranks == 1 ? "" : "s", hosts_among(facts), hosts_among(facts) == 1 ? "" : "s",
                      version("MPI").c_str(), version("PMIx").c_str());
  if (!refused.empty()) check.seen = format("%s started %d ranks", first.launcher.c_str(), ranks);
  if (first.recovers) {
    check.findings.push_back(finding_from(Severity::note, {"", kRecoversText}));
  }
  try {
    check_alike(as_one_build(ranks_of(facts)));
  } catch (const UserError& error) {
    for (Finding& finding : findings_from(Severity::mistake, error.problems())) {
      check.findings.push_back(std::move(finding));
    }
  }
  if (!refused.empty() && !srun_offers.empty()) {
    check.findings.front().remedy += "\nThis Slurm offers: " + lines_of(srun_offers) +
                                     (srun_offers.find("pmix") == std::string::npos
                                          ? ". pmix is not among them: ask for Slurm's PMIx "
                                            "plug-in, or start with mpirun inside "
                                            "the job."
                                          : ".");
  }
  return check;
}

Check check_plan_ranks(const PlannedRun& run, const std::vector<DoctorFacts>& facts,
                       const std::string& command, std::optional<Roles>& roles) {
  Check check{"plan", run.files, findings_from(Severity::mistake, run.problems)};
  for (const std::string& note : run.notes) {
    check.findings.push_back(finding_from(Severity::note, {"", note}));
  }
  if (run.files.empty()) {
    check.seen = "no --plan given: ranks are not compared with a plan";
    return check;
  }
  if (!run.problems.empty()) return check;
  try {
    if (run.has_plan) {
      check_ranks(run.job, static_cast<int>(facts.size()), command);
      roles = said_of(run.files, [&] { return decide_roles(run.job, ranks_of(facts), command); });
      check.seen += format(": %d workers, %d parameter server ranks, each on its host",
                           run.job.plan.worker_ranks(), run.job.plan.server_ranks());
    } else if (run.from_allocation) {
      compare_with_allocation(run, facts, check);
    } else if (auto problems = hosts_without_ranks(run, facts); !problems.empty()) {
      throw UserError(std::move(problems));
    }
  } catch (const UserError& error) {
    for (Finding& finding : findings_from(Severity::mistake, error.problems())) {
      check.findings.push_back(std::move(finding));
    }
  }
  return check;
}

Check check_job(const std::string& job, const std::string& scontrol_job) {
  Check check{"Slurm job", job};
  const auto value = [&](const std::string& key) {
    const std::size_t begin = scontrol_job.find(" " + key + "=");
    if (begin == std::string::npos) return std::string();
    const std::size_t from = begin + key.size() + 2;
    return scontrol_job.substr(from, scontrol_job.find_first_of(" \n", from) - from);
  };
  if (const std::string limit = value("TimeLimit"); !limit.empty()) {
    check.seen += ", time limit " + limit;
  }
  if (value("Requeue") == "0") {
    check.findings.push_back(
        {Severity::note, "job " + job, "is not requeued when it is preempted or loses a node",
         "Requeue=0",
         "Submit it with --requeue, and train with --resume, so that it continues "
         "by itself."});
  }
  return check;
}

}  // namespace hetpipe
