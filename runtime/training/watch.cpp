// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/watch.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/index.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

constexpr char kFlightFolder[] = "flight";
constexpr char kLastWords[] = "last-words";  // made by the rank that speaks for a lost rank 0

}  // namespace

std::string RankNames::of(Rank rank) const {
  const Role& role = roles.of_rank[at(rank.value)];
  std::vector<std::string> parts;
  if (role.worker) {
    parts.push_back(to_string(role.worker->device) + ", " + to_string(*role.worker));
  }
  if (role.shard) {
    parts.push_back(format("parameter server %d of %s", role.shard->value, role.node.c_str()));
  }
  parts.push_back(format("pid %d", facts[at(rank.value)].pid));
  return format("rank %d on %s (%s)", rank.value, facts[at(rank.value)].host.c_str(),
                join(parts, ", ").c_str());
}

std::string failure_line(const Failure& failure, const std::vector<RankState>& states,
                         const RankNames& names, std::int64_t now_ns) {
  const auto doing = [&](Rank rank) { return describe(states[at(rank.value)], now_ns); };
  if (failure.what == Failure::What::said) {
    std::string text =
        format("rank %d on %s: %s", failure.ranks.front().value,
               names.facts[at(failure.ranks.front().value)].host.c_str(), failure.text.c_str());
    if (failure.culprit) {
      text += format("; %s was last seen %s", names.of(*failure.culprit).c_str(),
                     doing(*failure.culprit).c_str());
    }
    return text;
  }
  const std::string what =
      failure.what == Failure::What::died
          ? "has died"
          : "has not responded for " + failure.text + " (stopped, hung or cut off),";
  std::vector<std::string> lost;
  for (const Rank rank : failure.ranks) {
    lost.push_back(
        format("%s %s while %s", names.of(rank).c_str(), what.c_str(), doing(rank).c_str()));
  }
  return join(lost, "; ") +
         ". The run ends here; resume it from its newest checkpoint with --resume.";
}

TrainWatch::TrainWatch(const std::filesystem::path& run, int entries, double timeout_seconds,
                       const Roles& roles, const std::vector<RankFacts>& facts,
                       Transport& transport, Log& log)
    : run_(run), entries_(entries), names_{roles, facts}, rank_(transport.rank()), log_(log) {
  recorder_ = std::make_unique<FlightRecorder>(flight_of(at(rank_.value)), rank_, entries);
  recorder_->begin("starting", Doing::long_phase);
  if (rank_ == Rank{0}) std::filesystem::remove(run_ / kFlightFolder / kLastWords);
  LifelineSetup setup{.rank = rank_,
                      .machines = {},
                      .timeout_seconds = timeout_seconds,
                      .exchange = [&](auto bytes) { return transport.exchange(bytes); },
                      .state = [this] { return recorder_->state(); },
                      .say = [this](const Failure& failure,
                                    const std::vector<RankState>& states) { say(failure, states); },
                      .claim = [this] { return claim(); }};
  for (const RankFacts& rank : facts) setup.machines.push_back(rank.place);
  lifeline_ = std::make_unique<Lifeline>(std::move(setup));
  if (!lifeline_->problem().empty()) {
    log_.warning(format(
        "rank 0 on %s cannot connect to %s (a firewall between the hosts?). The loss of these "
        "ranks is detected only by ranks that wait for them, after --timeout. Let the hosts of a "
        "job connect to each other over TCP.",
        facts.front().host.c_str(), lifeline_->problem().c_str()));
  }
}

std::filesystem::path TrainWatch::flight_of(std::size_t rank) const {
  return run_ / kFlightFolder / format("rank-%zu", rank);
}

bool TrainWatch::on_this_machine(std::size_t rank) const {
  return names_.facts[rank].boot == names_.facts[at(rank_.value)].boot;
}

// The file comes into being once, on the file system that all share.
bool TrainWatch::claim() const {
  const int file =
      ::open((run_ / kFlightFolder / kLastWords).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (file < 0) return false;
  ::close(file);
  return true;
}

void TrainWatch::say(const Failure& failure, std::vector<RankState> states) {
  if (rank_ != Rank{0}) log_.open_file((run_ / "train.log").string());
  std::vector<std::optional<Flight>> flights(states.size());
  for (std::size_t r = 0; r < states.size(); ++r) {
    if (!on_this_machine(r)) continue;  // its clock and its pages are its own
    flights[r] = FlightRecorder::try_read(flight_of(r));
    if (flights[r]) states[r] = flights[r]->state;
  }
  const std::int64_t now = now_ns();
  log_.failure(failure_line(failure, states, names_, now));
  if (entries_ == 0) return;
  std::string text = "last actions, with their start relative to this line:\n";
  for (std::size_t r = 0; r < states.size(); ++r) {
    text += "  " + names_.of(Rank{static_cast<int>(r)}) + "\n";
    text += flights[r] ? describe(*flights[r], now, "  ")
                       : format("    see %s\n", flight_of(r).c_str());
  }
  log_.failure(text);
}

int TrainWatch::leave(const std::exception& error) {
  if (const auto* ends = dynamic_cast<const JobEnds*>(&error)) return ends->code();
  const int code = static_cast<int>(exit_code_of(error));
  const auto* waited = dynamic_cast<const WaitFailed*>(&error);
  const std::optional<Rank> culprit = waited != nullptr ? waited->culprit() : std::nullopt;
  const std::string text = text_of(error);
  if (const auto reported = lifeline_->report(code, text, culprit)) return *reported;
  say({.ranks = {rank_}, .code = code, .text = text, .culprit = culprit}, lifeline_->states());
  return code;
}

}  // namespace hetpipe
