// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>

#include "base/cache.h"
#include "base/temporary_file.h"
#include "base/text.h"
#include "launch/launcher/launched.h"
#include "launch/launcher/start_watch.h"
#include "launch/train/meeting.h"
#include "runtime/training/paths.h"
#include "runtime/training/simulated_time.h"
#include "runtime/training/stop.h"
#include "runtime/training/watch.h"
#include "runtime/transport/mpi.h"

namespace hetpipe {
namespace {

// All ranks of an emulated cluster map one table of busy links: the first makes it, the others open
// it, and then its name has served.
void share_links(const TrainJob& job, const Roles& roles, Transport& transport) {
  const LinkTable links = make_link_table(*job.cluster, roles);
  if (links.resources == 0) return;  // no link is emulated
  const std::filesystem::path file =
      std::filesystem::path(job.checkpoint_folder).parent_path() / "links";
  const bool first = transport.rank() == Rank{0};
  TemporaryFile made;
  if (first) made = TemporaryFile(file.string());
  std::shared_ptr<LinkClock> clock;
  if (first) clock = LinkClock::in_file(file, links.resources, true);
  transport.exchange({});
  if (!first) clock = LinkClock::in_file(file, links.resources, false);
  transport.emulate_links(links, clock);
  transport.exchange({});
}

Meeting meet_watched(const TrainCall& call, Transport& transport, Log& log) {
  std::optional<StartWatch> watch;
  try {
    watch.emplace(call.options.timeout, transport, log);
    Meeting meeting = meet(call, transport, log);
    watch->goodbye();
    return meeting;
  } catch (const JobEnds& ends) {
    transport.abort(ends.code());
    throw;
  } catch (const UserError&) {
    throw;  // all ranks have it
  } catch (const std::exception& error) {
    transport.abort(watch ? watch->leave(error) : say_alone(error, transport.rank(), log));
    throw;
  }
}

}  // namespace

TrainEnd train_over_mpi(const TrainCall& call) {
  const StopSignals signals;
  // Output goes through the launcher. When that is gone a rank has a moment left to say so in the
  // log, unless its next line on the terminal ends it.
  ::signal(SIGPIPE, SIG_IGN);
  check_launcher(call.command);
  MpiSession session(nullptr, nullptr);
  check_world(session.ranks(), session.library(), call.command);
  const bool first = session.rank() == Rank{0};
  Log log = log_of(call.options, session.rank());
  const std::unique_ptr<Transport> transport = session.make_transport();
  TrainCall of_this_rank = call;
  of_this_rank.mpi_reaches_gpus = session.reaches_gpus();
  const Meeting meeting = meet_watched(of_this_rank, *transport, log);
  if (meeting.code != 0 || meeting.ended) {
    StopSignals::exit_code_is_settled();
    return {meeting.code};
  }
  const TrainJob& job = meeting.job;
  const Roles& roles = meeting.roles;
  const std::vector<RankFacts>& facts = meeting.facts;
  if (first) greet(call, meeting.prepared, roles, facts, meeting.devices, session.library(), log);

  std::optional<TrainWatch> watch;
  try {
    watch.emplace(std::filesystem::path(job.checkpoint_folder).parent_path(),
                  call.options.flight_recorder, job.timeout_seconds, roles, facts, *transport, log);
    if (job.emulates()) share_links(job, roles, *transport);
    const RunEnd end =
        run_rank(job, {*transport, roles, data_of(call.options, job),
                       facts[static_cast<std::size_t>(session.rank().value)].host, meeting.devices,
                       path_ends(facts, meeting.devices), log, StopSignals::wanted, plan_cache(),
                       watch->watchers(), make_timeline(job)});
    StopSignals::exit_code_is_settled();
    if (first) close_run(call, job, session.ranks(), end, meeting.prepared, log);
    watch->goodbye();
    if (!first) return {static_cast<int>(end.code)};
    return {static_cast<int>(end.code), meeting.prepared.directory->path()};
  } catch (const std::exception& error) {
    // The others are in the middle of their work.
    const int code = watch ? watch->leave(error) : say_alone(error, session.rank(), log);
    transport->abort(code);
    return {code};
  }
}

}  // namespace hetpipe
