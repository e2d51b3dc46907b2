// SPDX-License-Identifier: Apache-2.0
#include "launch/evaluate/on_ranks.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <optional>

#include "base/failure.h"
#include "base/index.h"
#include "base/text.h"
#include "launch/launcher/launched.h"
#include "launch/launcher/round.h"
#include "launch/launcher/start_watch.h"
#include "runtime/training/rank_facts.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/mpi.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

constexpr double kSilentSeconds = 60;  // a rank that is silent for longer is lost
constexpr double kForever = std::numeric_limits<double>::infinity();

enum class EvaluationKind : std::int32_t { done = first_after<TransportKind>, all_done };
struct PartDone {
  static constexpr auto kKind = EvaluationKind::done;
  int rank = 0;
};
struct AllDone {
  static constexpr auto kKind = EvaluationKind::all_done;
  int ranks = 0;
};

// Ranks need unequal times, and an exchange does not wait for long: the first hears from all, then
// tells all. The lifeline notices who is lost meanwhile.
void wait_for_all(Transport& transport) {
  const bool first = transport.rank() == Rank{0};
  int missing = first ? transport.ranks() - 1 : 1;
  if (!first) send_control(transport, Rank{0}, PartDone{transport.rank().value});
  const auto poll = [&] {
    transport.progress();
    while (const auto message = transport.try_receive_control()) {
      first ? static_cast<void>(read_as<PartDone>(*message))
            : static_cast<void>(read_as<AllDone>(*message));
      --missing;
    }
  };
  wait_until([&] { return missing == 0; }, poll, kForever,
             [] { return std::string("the other ranks to evaluate their parts"); });
  for (int rank = 1; first && rank < transport.ranks(); ++rank) {
    send_control(transport, Rank{rank}, AllDone{transport.ranks()});
  }
}

int place_on_host(const std::vector<std::string>& hosts, int rank) {
  return static_cast<int>(std::count(hosts.begin(), hosts.begin() + rank, hosts[at(rank)]));
}

// All evaluated the same.
void check_same(const std::vector<EvaluatedPart>& parts, const std::vector<std::string>& hosts) {
  Problems problems;
  for (std::size_t r = 1; r < parts.size(); ++r) {
    for (const auto& [member, what] :
         {std::pair(&EvaluatedPart::data, "data"), std::pair(&EvaluatedPart::weights, "weights")}) {
      if (parts[r].*member == parts[0].*member) continue;
      problems.add(format("rank %zu on %s", r, hosts[r].c_str()),
                   format("has other %s than rank 0 on %s. Give the same files on every machine.",
                          what, hosts[0].c_str()));
    }
  }
  problems.throw_if_any();
}

std::vector<EvaluatedPart> all_parts(Transport& transport, const std::string& configuration,
                                     const std::function<EvaluatedPart(int, int, int)>& evaluate) {
  const auto facts_here = [&] {
    RankFacts facts = facts_of_this_rank();
    facts.configuration = configuration;
    return facts;
  };
  const std::vector<RankFacts> facts = round_of(transport, {}, facts_here, Keys::as_far_as_known);
  check_alike(facts);
  const std::vector<std::string> hosts = hosts_of(facts);
  const int rank = transport.rank().value;
  EvaluatedPart mine;
  std::exception_ptr failed;
  try {
    mine = evaluate(place_on_host(hosts, rank), rank, transport.ranks());
  } catch (const std::exception&) {
    failed = std::current_exception();
  }
  wait_for_all(transport);
  std::vector<EvaluatedPart> parts = round_of(transport, hosts, [&] {
    if (failed) std::rethrow_exception(failed);
    return mine;
  });
  check_same(parts, hosts);
  return parts;
}

}  // namespace

int evaluate_on_ranks(const std::string& configuration, const std::string& command,
                      const std::function<EvaluatedPart(int, int, int)>& evaluate,
                      const std::function<void(const std::vector<EvaluatedPart>&)>& tell) {
  check_launcher(command);
  MpiSession session(nullptr, nullptr);
  check_world(session.ranks(), session.library(), command);
  Log log(nullptr, stderr, Log::Terminal::no);
  const std::unique_ptr<Transport> transport = session.make_transport();
  std::optional<StartWatch> watch;
  try {
    watch.emplace(kSilentSeconds, *transport, log, "during the evaluation");
    const std::vector<EvaluatedPart> parts = all_parts(*transport, configuration, evaluate);
    if (transport->rank() == Rank{0}) tell(parts);
    watch->goodbye();
    return static_cast<int>(ExitCode::done);
  } catch (const MachineFailed& failure) {
    return failure.code;
  } catch (const JobEnds& ends) {
    transport->abort(ends.code());
    throw;
  } catch (const UserError&) {
    throw;  // all ranks have it
  } catch (const std::exception& error) {
    transport->abort(watch ? watch->leave(error) : say_alone(error, transport->rank(), log));
    throw;
  }
}

}  // namespace hetpipe
