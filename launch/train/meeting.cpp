// SPDX-License-Identifier: Apache-2.0
#include "launch/train/meeting.h"

#include "launch/launcher/round.h"
#include "launch/train/ground.h"
#include "launch/train/start.h"

namespace hetpipe {
namespace {

// What a rank that reads samples finds where it looks for them; a server looks nowhere.
void open_own_data(const TrainCall& call, const TrainJob& job, const Role& role) {
  if (!role.worker) return;
  const auto& stages =
      job.plan.virtual_workers[static_cast<std::size_t>(role.worker->virtual_worker.value)].stages;
  const auto& own = role.worker->stages;
  if (own.front().value != 0 && own.back().value + 1 != static_cast<int>(stages.size())) return;
  const OpenData open = data_of(call.options, job);
  open(Split::train, Parts::labels);
  if (job.test_size > 0) open(Split::test, Parts::labels);
}

}  // namespace

Meeting meet(const TrainCall& call, Transport& transport, Log& log) try {
  const int self = transport.rank().value;
  const bool first = self == 0;
  Meeting meeting;
  const auto facts_here = [&] {
    RankFacts facts = facts_of_this_rank();
    facts.configuration = call.configuration;
    facts.mpi_reaches_gpus = call.mpi_reaches_gpus;
    return facts;
  };
  meeting.facts = round_of(transport, {}, facts_here, Keys::as_far_as_known);
  check_alike(meeting.facts);
  const std::vector<std::string> hosts = hosts_of(meeting.facts);

  const std::optional<Ground> ground = take_ground(call, transport, meeting.facts);
  const auto job_here = [&]() -> std::optional<TrainJob> {
    if (!first) return std::nullopt;
    meeting.prepared = prepare_training(call.options, transport.ranks(), call.command, log,
                                        ground ? &*ground : nullptr);
    if (!meeting.prepared.ended.empty()) return std::nullopt;
    return meeting.prepared.job;
  };
  const std::optional<TrainJob> job = round_of(transport, hosts, job_here).front();
  meeting.ended = !job;
  if (meeting.ended) {
    if (first) log.line(meeting.prepared.ended);
    return meeting;
  }
  meeting.job = *job;
  meeting.roles = decide_roles(meeting.job, meeting.facts, call.command);
  check_together(meeting.facts, meeting.roles, meeting.job, call.command);

  const auto device_here = [&] {
    return device_of_rank(meeting.job, meeting.roles, hosts, transport.rank());
  };
  meeting.devices = round_of(transport, hosts, device_here);

  round(transport, hosts, [&] {
    open_own_data(call, meeting.job, meeting.roles.of_rank[static_cast<std::size_t>(self)]);
    return std::string();
  });

  const auto directory_here = [&]() -> std::optional<TrainJob> {
    if (!first) return std::nullopt;
    take_run_directory(call.options, call.configuration, meeting.prepared, log);
    return meeting.prepared.job;
  };
  meeting.job = round_of(transport, hosts, directory_here).front().value();
  return meeting;
} catch (const MachineFailed& failure) {
  Meeting none;
  none.code = failure.code;
  return none;
}

}  // namespace hetpipe
