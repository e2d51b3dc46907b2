// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher/start_watch.h"

#include <exception>
#include <span>

#include "base/bytes.h"
#include "base/fields_json.h"
#include "base/text.h"
#include "runtime/training/rank_facts.h"

namespace hetpipe {
namespace {

constexpr double kStartGrace = 0.2;  // s: who waits for the others does not look at the lifeline

}  // namespace

StartWatch::StartWatch(double timeout_seconds, Transport& transport, Log& log) {
  const RankFacts mine = facts_of_this_rank();
  const std::string text = to_text(mine);
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
    // Whether all are of one build is not known yet.
    const auto facts = from_text<RankFacts>(as_text(bytes), Keys::as_far_as_known);
    names_.push_back(
        format("rank %zu on %s (pid %d)", names_.size(), facts.host.c_str(), facts.pid));
    setup.machines.push_back(facts.place);
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
