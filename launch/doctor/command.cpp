// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>

#include "base/log.h"
#include "launch/command/shell_words.h"
#include "launch/command/subcommand.h"
#include "launch/doctor/examine.h"
#include "launch/launcher/launched.h"
#include "launch/launcher/round.h"
#include "launch/launcher/start_watch.h"
#include "runtime/transport/mpi.h"
#include "runtime/transport/threads.h"

namespace hetpipe {
namespace {

constexpr double kSilentSeconds = 60;     // a rank that is silent for longer is lost
constexpr double kExchangeSeconds = 120;  // for all ranks to come to an exchange, beside a time-out

// Rank 0 says it; all leave with its exit code.
int tell(const DoctorCall& call, const Diagnosis& diagnosis, Transport& transport) {
  const auto said = [&] {
    if (transport.rank() != Rank{0}) return std::string();
    std::fputs((call.options.json ? diagnosis_json(diagnosis) : diagnosis_text(diagnosis)).c_str(),
               stdout);
    std::fflush(stdout);
    return std::to_string(static_cast<int>(exit_code_of(diagnosis.checks)));
  };
  return std::stoi(round(transport, {}, said).front());
}

// A process that has no MPI world with the others looks at what it sees alone, and the first of
// them speaks.
int examine_alone(DoctorCall& call, const UserError& refused) {
  if (!speaks_for_all()) throw refused;
  call.refused = refused.problems();
  const auto alone = std::move(make_threads_transports(1).front());
  LinkTests links(*alone, call.options.timeout);
  try {
    return tell(call, examine(call, *alone, links), *alone);
  } catch (const MachineFailed& failure) {
    return failure.code;
  }
}

int examine_together(DoctorCall& call, MpiSession& session) {
  Log log(nullptr, stderr, Log::Terminal::no);
  std::optional<LinkTests> links;  // outlives the transport: see LinkEnd
  const std::unique_ptr<Transport> transport =
      session.make_transport({.exchange_seconds = kExchangeSeconds + 2 * call.options.timeout,
                              .meet_by = MeetBy::launcher});
  links.emplace(*transport, call.options.timeout);
  int code = 0;
  bool lost = false;  // a message, on any rank
  std::optional<StartWatch> watch;
  try {
    watch.emplace(kSilentSeconds, *transport, log);
    call.lifelines = watch->problem();
    const Diagnosis diagnosis = examine(call, *transport, *links);
    code = tell(call, diagnosis, *transport);
    settle_exit_code(static_cast<ExitCode>(code));
    lost = !std::all_of(diagnosis.links.begin(), diagnosis.links.end(),
                        [](const PairLink& link) { return link.answers(); });
    watch->goodbye();
  } catch (const MachineFailed& failure) {
    code = failure.code;
  } catch (const JobEnds& ends) {
    transport->abort(ends.code());
    throw;
  } catch (const std::exception& error) {
    // The others are in the middle of their work.
    transport->abort(watch ? watch->leave(error) : say_alone(error, transport->rank(), log));
  }
  if (lost) {
    // MPI_Finalize would wait for it. All know the code, so that no rank has to end the others.
    if (transport->rank() != Rank{0}) leave_after_first_rank(static_cast<ExitCode>(code));
    std::_Exit(code);
  }
  return code;
}

int doctor(DoctorCall& call) {
  try {
    check_launcher(call.command);
  } catch (const UserError& refused) {
    return examine_alone(call, refused);
  }
  MpiSession session(nullptr, nullptr);
  call.mpi = session.library();
  try {
    check_world(session.ranks(), session.library(), call.command);
  } catch (const UserError& refused) {
    return examine_alone(call, refused);
  }
  return examine_together(call, session);
}

}  // namespace

int doctor_command(const Invocation& how) {
  DoctorCall call;
  OptionTable table = doctor_option_table(call.options);
  if (!read_options(table, how)) return 0;
  std::vector<std::string> words{how.program, "doctor"};
  words.insert(words.end(), how.arguments.begin(), how.arguments.end());
  call.command = shell_words(words);
  call.configuration = table.configuration();
  const int code = doctor(call);
  if (code != 0 && !speaks_for_all()) leave_after_first_rank(static_cast<ExitCode>(code));
  return code;
}

}  // namespace hetpipe
