// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>

#include "base/text.h"
#include "launch/launched.h"
#include "launch/stop_signals.h"
#include "launch/terminal.h"
#include "launch/train_session.h"
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
  MpiSession session(nullptr, nullptr);
  const auto here = launched();
  if (here && here->ranks != session.ranks()) {
    throw UserError(
        "", format("%s started %d ranks, and MPI sees %d (they do not share one MPI world). Start "
                   "them with the mpirun "
                   "of %s, or with srun --mpi=pmix.",
                   here->by.c_str(), here->ranks, session.ranks(), session.library().c_str()));
  }
  const bool first = session.rank() == Rank{0};
  Log log(first ? stdout : nullptr, stderr,
          first && people_watch() ? Log::Terminal::yes : Log::Terminal::no);
  const std::unique_ptr<Transport> transport = session.make_transport();

  Opening mine;
  mine.facts = facts_of_this_rank();
  Preparation prepared;
  if (first) {
    try {
      prepared =
          prepare_training(call.options, call.configuration, session.ranks(), call.command, log);
      mine.job = to_text(prepared.job);
    } catch (const std::exception& error) {
      mine.error = error.what();
      mine.code = exit_code_of(error);
    }
  }
  std::vector<Opening> openings;
  const std::string text = to_text(mine);
  for (const auto& bytes : transport->exchange(std::as_bytes(std::span(text)))) {
    openings.push_back(
        opening_from_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  }
  if (openings.front().code != 0) {
    if (first) std::fprintf(stderr, "%s\n", mine.error.c_str());
    return openings.front().code;
  }

  // From here on every rank holds the same values, and comes to the same verdict on them.
  const TrainJob job = job_from_text(openings.front().job);
  std::vector<RankFacts> facts;
  for (const Opening& opening : openings) facts.push_back(opening.facts);
  Problems problems;
  check_together(facts, job, problems);
  problems.throw_if_any();
  const Roles roles = decide_roles(job, facts);
  if (first) greet(prepared, roles, facts, session.library(), log);

  try {
    if (job.cluster) share_links(job, roles, *transport);
    const StopSignals signals;
    const RunEnd end = run_rank(job, {*transport, roles, data_of(call.options),
                                      facts[static_cast<std::size_t>(session.rank().value)].host,
                                      log, StopSignals::wanted});
    if (first) close_run(job, end, prepared, log);
    return static_cast<int>(end.code);
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
}

}  // namespace hetpipe
