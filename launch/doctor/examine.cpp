// SPDX-License-Identifier: Apache-2.0
#include "launch/doctor/examine.h"

#include <cmath>

#include "base/failure.h"
#include "base/index.h"
#include "base/text.h"
#include "base/wall_clock.h"
#include "launch/allocation/slurm.h"
#include "launch/doctor/planned_run.h"
#include "launch/launcher/child.h"
#include "launch/launcher/round.h"

namespace hetpipe {
namespace {

constexpr int kClockReadings = 3;

// Ranks leave an exchange at nearly the same time; of several readings the closest counts.
std::vector<double> clock_offsets(Transport& transport) {
  std::vector<double> mine;
  for (int i = 0; i < kClockReadings; ++i) {
    transport.exchange({});
    mine.push_back(wall_seconds());
  }
  std::vector<double> offsets;
  std::vector<double> first;
  for (const auto& theirs : round_of(transport, {}, [&] { return mine; })) {
    if (first.empty()) first = theirs;
    double offset = theirs[0] - first[0];
    for (std::size_t i = 1; i < theirs.size(); ++i) {
      if (std::abs(theirs[i] - first[i]) < std::abs(offset)) offset = theirs[i] - first[i];
    }
    offsets.push_back(offset);
  }
  return offsets;
}

// What rank 0 tells all, which may have been called otherwise, by a program of another build.
struct Settled {
  std::optional<TrainJob> job;  // where it is known which rank does what
  bool data = false;            // is looked at
  std::string output;           // to be tried; empty: none
};
constexpr auto fields_of(Type<Settled>) {
  return fields<&Settled::job, &Settled::data, &Settled::output>;
}

// Reads it in the round itself: the others hear at once if the machine fails rank 0 (Slurm does not
// answer).
Settled hand_round(const DoctorCall& call, Transport& transport, Diagnosis& seen, PlannedRun& run,
                   Check& plan) {
  const std::vector<std::string> hosts = hosts_of(ranks_of(seen.facts));
  const auto mine = [&] {
    if (transport.rank() != Rank{0}) return Settled{};
    run = read_planned_run(call.options, hosts);
    plan = call.refused.empty()
               ? check_plan_ranks(run, seen.facts, call.command, seen.roles)
               : Check{"plan", "ranks without a common MPI world are not compared with a plan",
                       findings_from(Severity::mistake, run.problems)};
    return Settled{.job = seen.roles ? std::optional(run.job) : std::nullopt,
                   .data = call.options.data.data.has_value(),
                   .output = call.options.output.value_or("")};
  };
  return round_of(transport, hosts, mine, Keys::as_far_as_known).front();
}

std::vector<FoundDevice> found_devices(const TrainJob& job, const Roles& roles,
                                       const std::vector<std::string>& hosts,
                                       Transport& transport) {
  const auto mine = [&] {
    FoundDevice found;
    try {
      found.device = device_of_rank(job, roles, hosts, transport.rank());
    } catch (const SystemError& error) {
      found.failure = text_of(error);
    }
    return found;
  };
  return round_of(transport, hosts, mine, Keys::as_far_as_known);
}

// Without a plan --device cuda still says what each rank computes on.
std::vector<FoundDevice> ranks_without_cards(const DoctorOptions& options,
                                             const std::vector<DoctorFacts>& facts) {
  std::vector<FoundDevice> devices;
  if (options.device != "cuda") return devices;
  for (const DoctorFacts& rank : facts) {
    FoundDevice& found = devices.emplace_back();
    if (rank.machine.cards.empty()) found.failure = "device cuda: " + rank.machine.why_no_card;
  }
  return devices;
}

// Of a training that nobody has planned yet.
constexpr int kUsualMinibatch = 32;

// Ranks of first stages, or all where it is not known which these are.
std::vector<DataSeen> looks_at_data(const DoctorOptions& options, const Settled& settled,
                                    const std::optional<Roles>& roles, Transport& transport) {
  const auto mine = [&]() -> DataSeen {
    if (!options.data.data) return {.reads = true, .failure = "has no --data", .mistake = true};
    if (!roles) return look_at_data(options.data, "", kUsualMinibatch);
    const auto& worker = roles->of_rank[at(transport.rank().value)].worker;
    if (!worker || worker->stage() != StageId{0}) return {};
    const Plan& plan = settled.job->plan;
    return look_at_data(options.data, plan.model,
                        plan.minibatch_of(worker->virtual_worker) / worker->replicas);
  };
  transport.exchange({});  // all read at once
  return round_of(transport, {}, mine, Keys::as_far_as_known);
}

struct Output {
  OutputFacts facts;
  std::vector<OutputSeen> seen;
};

Output try_output(const std::string& output, Transport& transport) {
  const bool first = transport.rank() == Rank{0};
  std::optional<OutputTrial> trial;
  const auto tried = [&] {
    if (first) trial.emplace(output);
    return first ? trial->facts() : OutputFacts{};
  };
  Output found;
  found.facts = round_of(transport, {}, tried, Keys::as_far_as_known).front();
  const auto seen = [&] {
    return first ? OutputSeen{} : look_at_output(found.facts, transport.rank().value);
  };
  found.seen = round_of(transport, {}, seen, Keys::as_far_as_known);
  return found;
}

// What a command of Slurm says, or nothing: a doctor does without.
std::string try_ask(const std::vector<std::string>& words) {
  try {
    return output_of(words, 5).text;
  } catch (const SystemError&) {
    return {};
  }
}

}  // namespace

Diagnosis examine(const DoctorCall& call, Transport& transport, LinkTests& links) {
  const DoctorOptions& options = call.options;
  const bool first = transport.rank() == Rank{0};
  Diagnosis seen;
  const auto facts_here = [&] {
    DoctorFacts facts =
        doctor_facts_here(options.device == "cpu" ? LookForCards::no : LookForCards::yes,
                          transport.ranks(), call.mpi);
    facts.machine.rank.configuration = call.configuration;
    return facts;
  };
  seen.facts = round_of(transport, {}, facts_here, Keys::as_far_as_known);
  const bool one_world = call.refused.empty();

  PlannedRun run;
  Check plan{"plan", "", {}};
  const Settled settled = hand_round(call, transport, seen, run, plan);
  if (settled.job) {
    if (!first) seen.roles = decide_roles(*settled.job, ranks_of(seen.facts), call.command);
    seen.devices =
        found_devices(*settled.job, *seen.roles, hosts_of(ranks_of(seen.facts)), transport);
  } else {
    seen.devices = ranks_without_cards(options, seen.facts);
  }
  seen.clocks = clock_offsets(transport);
  if (one_world) seen.links = links.run();
  if (settled.data) seen.data = looks_at_data(options, settled, seen.roles, transport);
  std::optional<Output> output;
  if (!settled.output.empty()) output = try_output(settled.output, transport);
  if (!first) return seen;

  seen.checks.push_back(check_launch(
      seen.facts, call.refused,
      !one_world && seen.facts.front().launcher == "srun" ? try_ask({"srun", "--mpi=list"}) : ""));
  if (const std::string job = slurm_job_id(); !job.empty()) {
    seen.checks.push_back(check_job(job, try_ask({"scontrol", "--oneliner", "show", "job", job})));
  }
  seen.checks.push_back(std::move(plan));
  seen.checks.push_back(check_versions(seen.facts));
  seen.checks.push_back(check_devices(run, seen.facts, seen.roles, seen.devices));
  seen.checks.push_back(
      check_cores(run, seen.facts, seen.roles, seen.devices, options.threads, call.command));
  if (one_world) {
    seen.checks.push_back(check_links(seen.links, seen.facts, options.timeout, call.lifelines));
  }
  seen.checks.push_back(check_clocks(seen.clocks, seen.facts));
  if (!seen.data.empty()) {
    seen.checks.push_back(check_data(run, *options.data.data, seen.facts, seen.roles, seen.data));
  }
  if (output) {
    seen.output = output->facts;
    seen.checks.push_back(check_output(output->facts, output->seen, seen.facts,
                                       checkpoint_bytes(run.job, options.keep)));
  }
  return seen;
}

}  // namespace hetpipe
