// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/rank_service.h"

#include <limits>

#include "base/text.h"
#include "base/time.h"
#include "runtime/transport/wait.h"

namespace hetpipe {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();
constexpr std::int64_t kJudgeEvery = 50'000'000;        // ns
constexpr std::int64_t kLifeSignEvery = 1'000'000'000;  // ns

}  // namespace

RankService::RankService(Transport& transport, double timeout_seconds, Watchers watchers)
    : transport_(transport), timeout_seconds_(timeout_seconds), watchers_(watchers) {
  on<LifeSign>([this](Rank, const LifeSign&) { ++life_signs_; });
}

void RankService::on(std::int32_t kind, TakesMessage handler) {
  const bool first = handlers_.emplace(kind, std::move(handler)).second;
  ensure(first, "two roles of one rank handle the same control message");
}

void RankService::begin(std::string_view what, Doing doing) {
  if (watchers_.recorder != nullptr) watchers_.recorder->begin(what, doing);
}

void RankService::give_life_sign() {
  const std::int64_t now = now_ns();
  if (now - last_life_sign_ns_ < kLifeSignEvery) return;
  last_life_sign_ns_ = now;
  tell_all(LifeSign{});
}

void RankService::move_messages() {
  transport_.progress();
  for (const auto& move : movers_) move();
}

void RankService::poll() {
  if (watchers_.lifeline != nullptr) watchers_.lifeline->check();
  move_messages();
  while (auto message = transport_.try_receive_control()) {
    const auto handler = handlers_.find(message->header.kind);
    ensure(handler != handlers_.end(), "a control message that no role of this rank expects");
    handler->second(*message);
    note_work();
  }
  for (const auto& poll : polls_) poll();
}

void RankService::give_up_if_stuck(const Awaited& awaited, std::int64_t start_ns) {
  const std::int64_t now = now_ns();
  std::optional<Rank> culprit = awaited.from;
  if (watchers_.states) {
    const WaitVerdict verdict =
        judge_wait(watchers_.states(), transport_.rank(), awaited.from, timeout_seconds_, now);
    if (verdict.go_on) return;
    culprit = verdict.culprit;
  }
  throw WaitFailed(
      format("waited %.1f s for %s", seconds_between(start_ns, now), awaited.what.c_str()),
      culprit);
}

double RankService::wait(const std::function<bool()>& ready, const Name& name, Patience patience,
                         std::string_view brief) {
  poll();
  if (ready()) return 0;
  const std::int64_t start = now_ns();
  const Awaited awaited = brief.empty() ? name() : Awaited(std::string(brief));
  FlightRecorder* const recorder = watchers_.recorder;
  if (recorder != nullptr) recorder->begin_wait(awaited.what, awaited.from);
  std::int64_t judge = start + to_ns(timeout_seconds_);
  std::int64_t life_signs = life_signs_;
  const auto serve = [&] {
    const std::int64_t begun = recorder != nullptr ? recorder->begun() : 0;
    poll();
    // A message that was served is done with.
    if (recorder != nullptr && recorder->begun() != begun) {
      recorder->resume_wait(awaited.what, awaited.from);
    }
    const std::int64_t now = now_ns();
    if (patience == Patience::until_no_life_sign && life_signs != life_signs_) {
      life_signs = life_signs_;
      judge = std::max(judge, now + to_ns(timeout_seconds_));
    }
    if (now < judge || ready()) return;
    give_up_if_stuck(name(), start);
    judge = now + kJudgeEvery;
  };
  while (!ready()) {
    const std::int64_t work = work_;
    wait_until([&] { return ready() || work_ != work; }, serve, kForever,
               [] { return std::string(); }, alertness_);
  }
  if (recorder != nullptr) recorder->end_wait();
  return seconds_between(start, now_ns());
}

double RankService::wait(const std::function<bool()>& ready, const Name& name) {
  return wait(ready, name, Patience::fixed, {});
}

double RankService::wait(const Operation& operation, const Name& name) {
  return wait([&operation] { return operation.done(); }, name);
}

double RankService::wait_for_others(const std::function<bool()>& ready, const Name& name,
                                    std::string_view brief) {
  return wait(ready, name, Patience::until_no_life_sign, brief);
}

void RankService::settle(Stream& stream, const std::function<std::string()>& what) {
  const std::unique_ptr<Event> event = stream.record();
  if (!event->done()) wait([&] { return event->done(); }, what);
}

// A modelled time may be longer than the deadline of those who wait for it.
void RankService::wait_until_ns(std::int64_t deadline_ns) {
  std::int64_t shown = now_ns();
  wait_until_time(deadline_ns, [&] {
    poll();
    const std::int64_t now = now_ns();
    if (watchers_.recorder == nullptr || now - shown < kJudgeEvery) return;
    watchers_.recorder->gets_on();
    shown = now;
  });
}

}  // namespace hetpipe
