// SPDX-License-Identifier: Apache-2.0
#include "launch/launcher/start_watch.h"

#include <exception>
#include <span>

#include "base/bytes.h"
#include "base/failure.h"
#include "base/fields_json.h"
#include "base/text.h"
#include "runtime/training/rank_facts.h"

namespace hetpipe {
namespace {

constexpr double kStartGrace = 0.2;  // s: who waits for the others does not look at the lifeline

}  // namespace

int say_alone(const std::exception& error, Rank rank, Log& log) {
  log.failure(format("rank %d on %s: %s", rank.value, facts_of_this_rank().host.c_str(),
                     text_of(error).c_str()));
  return static_cast<int>(exit_code_of(error));
}

StartWatch::StartWatch(double timeout_seconds, Transport& transport, Log& log, std::string when)
    : log_(log), rank_(transport.rank()), when_(std::move(when)) {
  const RankFacts mine = facts_of_this_rank();
  const std::string text = to_text(mine);
  LifelineSetup setup{
      .rank = rank_,
      .machines = {},
      .timeout_seconds = timeout_seconds,
      .grace_seconds = kStartGrace,
      .exchange = [&](auto bytes) { return transport.exchange(bytes); },
      .state = [] { return RankState{}; },
      .say = [this](const Failure& failure, const std::vector<RankState>&) { say(failure); },
      .claim = [this] { return rank_ == Rank{1}; }};
  for (const auto& bytes : transport.exchange(std::as_bytes(std::span(text)))) {
    // Whether all are of one build is not known yet.
    const auto facts = from_text<RankFacts>(as_text(bytes), Keys::as_far_as_known);
    names_.push_back(
        format("rank %zu on %s (pid %d)", names_.size(), facts.host.c_str(), facts.pid));
    setup.machines.push_back(facts.place);
  }
  lifeline_ = std::make_unique<Lifeline>(std::move(setup));
}

void StartWatch::say(const Failure& failure) {
  for (const Rank rank : failure.ranks) {
    const std::string& name = names_[static_cast<std::size_t>(rank.value)];
    if (failure.what == Failure::What::said) {
      log_.failure(name + ": " + failure.text);
      continue;
    }
    log_.failure(name +
                 (failure.what == Failure::What::died ? " has died"
                                                      : " has not responded for " + failure.text) +
                 " " + when_ +
                 ". Its own messages, if any, are above; the system's log may say more.");
  }
}

void StartWatch::goodbye() {
  left_ = true;
  lifeline_->goodbye();
}

int StartWatch::leave(const std::exception& error) {
  left_ = true;
  if (const auto* ends = dynamic_cast<const JobEnds*>(&error)) return ends->code();
  const auto reported =
      lifeline_->report(static_cast<int>(exit_code_of(error)), text_of(error), std::nullopt);
  return reported ? *reported : say_alone(error, rank_, log_);
}

StartWatch::~StartWatch() {
  try {
    if (!left_) goodbye();
  } catch (const std::exception&) {
    // Another rank is lost: the lifeline's thread says so, and ends this process.
  }
}

}  // namespace hetpipe
