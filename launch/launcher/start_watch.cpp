// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher/start_watch.h"

#include <exception>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "runtime/training/rank_facts.h"

namespace hetpipe {
namespace {

constexpr double kStartGrace = 0.2;  // s: who waits for the others does not look at the lifeline

}  // namespace

StartWatch::StartWatch(double timeout_seconds, Transport& transport, Log& log) {
  const RankFacts mine = facts_of_this_rank();
  const std::string text = format("%s\n%d\n%s", mine.host.c_str(), mine.pid, mine.place.c_str());
  LifelineSetup setup{
      .rank = transport.rank(),
      .machines = {},
      .timeout_seconds = timeout_seconds,
      .grace_seconds = kStartGrace,
      .exchange = [&](auto bytes) { return transport.exchange(bytes); },
      .state = [] { return RankState{}; },
      .say =
          [this, &log](const Failure& failure, const std::vector<RankState>&) {
            for (const Rank rank : failure.ranks) {
              log.failure(names_[static_cast<std::size_t>(rank.value)] +
                          (failure.what == Failure::What::died
                               ? " has died"
                               : " has not responded for " + failure.text) +
                          " while the ranks were starting. Its own messages, if any, are "
                          "above; the system's log may say more.");
            }
          },
      .claim = [rank = transport.rank()] { return rank == Rank{1}; }};
  for (const auto& bytes : transport.exchange(std::as_bytes(std::span(text)))) {
    const auto lines =
        split(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), '\n');
    ensure(lines.size() == 3, "three lines: host, process and machine");
    names_.push_back(
        format("rank %zu on %s (pid %s)", names_.size(), lines[0].c_str(), lines[1].c_str()));
    setup.machines.push_back(lines[2]);
  }
  lifeline_ = std::make_unique<Lifeline>(std::move(setup));
}

void StartWatch::goodbye() {
  goodbye_said_ = true;
  lifeline_->goodbye();
}

StartWatch::~StartWatch() {
  try {
    if (!goodbye_said_) goodbye();
  } catch (const std::exception&) {
    // Another rank is lost: the lifeline's thread says so, and ends this process.
  }
}

}  // namespace hetpipe
