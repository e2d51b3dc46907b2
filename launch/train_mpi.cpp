// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <filesystem>

#include "base/text.h"
#include "launch/launched.h"
#include "launch/terminal.h"
#include "launch/train_meeting.h"
#include "runtime/transport/mpi.h"

namespace hetpipe {
namespace {

int exit_code_of(const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error) != nullptr) return static_cast<int>(ExitCode::user);
  if (dynamic_cast<const NumericalError*>(&error) != nullptr) {
    return static_cast<int>(ExitCode::numerical);
  }
  return static_cast<int>(ExitCode::system);
}

// All ranks of an emulated cluster map one table of busy links: the first makes it, the others open
// it, and then its name has served.
void share_links(const TrainJob& job, const Roles& roles, Transport& transport) {
  const LinkTable links = make_link_table(*job.cluster, roles);
  if (links.resources == 0) return;  // no link is emulated
  const std::filesystem::path file =
      std::filesystem::path(job.checkpoint_folder).parent_path() / "links";
  const bool first = transport.rank() == Rank{0};
  std::shared_ptr<LinkClock> clock;
  if (first) clock = LinkClock::in_file(file, links.resources, true);
  transport.exchange({});
  if (!first) clock = LinkClock::in_file(file, links.resources, false);
  transport.emulate_links(links, clock);
  transport.exchange({});
  if (first) std::filesystem::remove(file);
}

}  // namespace

int train_over_mpi(const TrainCall& call) {
  check_launcher(call.command);
  MpiSession session(nullptr, nullptr);
  check_world(session.ranks(), session.library(), call.command);
  const bool first = session.rank() == Rank{0};
  Log log(first ? stdout : nullptr, stderr,
          first && people_watch() ? Log::Terminal::yes : Log::Terminal::no);
  const std::unique_ptr<Transport> transport = session.make_transport();
  const Meeting meeting = meet(call, *transport, log);
  if (meeting.code != 0) return meeting.code;
  const TrainJob& job = meeting.job;
  const Roles& roles = meeting.roles;
  const std::vector<RankFacts>& facts = meeting.facts;
  if (first) greet(meeting.prepared, roles, facts, session.library(), log);

  try {
    if (job.cluster) share_links(job, roles, *transport);
    const Reporter::Outcome outcome =
        run_rank(job, {*transport, roles, data_of(call.options, job),
                       facts[static_cast<std::size_t>(session.rank().value)].host, log});
    if (first) close_run(job, outcome, meeting.prepared, log);
  } catch (const std::exception& error) {
    // The others are in the middle of their work: this rank says why, and ends the job.
    const int code = exit_code_of(error);
    log.clear_progress();
    std::fprintf(stderr, "rank %d on %s: %s\n", session.rank().value,
                 facts[static_cast<std::size_t>(session.rank().value)].host.c_str(), error.what());
    std::fflush(stderr);
    transport->abort(code);
    return code;
  }
  return 0;
}

}  // namespace hetpipe
