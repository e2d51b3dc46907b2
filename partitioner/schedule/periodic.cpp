// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/periodic.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "partitioner/schedule/counts.h"

namespace hetpipe {
namespace {

constexpr std::int64_t kSeen = 3;  // times that a period stands in the shorter schedule

Action shifted(Action action, Minibatch by) {
  action.minibatch += by;
  return action;
}

// From the actions of a stage in runs of n and of n + step minibatches to those of n + repeats *
// step; nothing where no part of them repeats.
std::optional<PeriodicActions> fold(const StageActions& brief, const StageActions& longer,
                                    Minibatch step, std::int64_t repeats) {
  const std::size_t period = longer.size() - brief.size();
  std::size_t begin = 0;  // what both begin with
  while (begin < brief.size() && brief[begin] == longer[begin]) ++begin;
  std::size_t end = 0;  // what both end with, `step` minibatches apart
  while (end < brief.size() &&
         shifted(brief[brief.size() - 1 - end], step) == longer[longer.size() - 1 - end]) {
    ++end;
  }
  if (period == 0 || begin + end < brief.size()) return std::nullopt;
  // The inserted period and those beside it are one thing: it begins where it can first.
  std::size_t first = begin;
  while (first > 0 && shifted(longer[first - 1], step) == longer[first - 1 + period]) --first;
  std::size_t seen = 0;
  while (first + (seen + 1) * period <= brief.size() &&
         std::equal(longer.begin() + std::ptrdiff_t(first),
                    longer.begin() + std::ptrdiff_t(first + period),
                    brief.begin() + std::ptrdiff_t(first + seen * period),
                    [&](const Action& a, const Action& b) {
                      return shifted(a, static_cast<Minibatch>(seen) * step) == b;
                    })) {
    ++seen;
  }
  if (static_cast<std::int64_t>(seen) < kSeen) return std::nullopt;
  PeriodicActions folded;
  const auto at = [](const StageActions& of, std::size_t i) {
    return of.begin() + static_cast<std::ptrdiff_t>(i);
  };
  folded.prologue.assign(brief.begin(), at(brief, first));
  folded.period.assign(at(longer, first), at(longer, first + period));
  folded.step = step;
  folded.periods = static_cast<std::int64_t>(seen) + repeats;
  for (std::size_t i = first + seen * period; i < brief.size(); ++i) {
    folded.epilogue.push_back(shifted(brief[i], repeats * step));
  }
  return folded;
}

std::optional<PeriodicSchedule> fold(const Schedule& brief, const Schedule& longer, Minibatch step,
                                     std::int64_t repeats) {
  PeriodicSchedule folded;
  for (std::size_t k = 0; k < brief.size(); ++k) {
    std::optional<PeriodicActions> stage = fold(brief[k], longer[k], step, repeats);
    if (!stage) return std::nullopt;
    folded.push_back(*std::move(stage));
  }
  return folded;
}

Schedule of_length(ScheduleRule rule, ScheduleRequest request, Lowering how, Minibatch length) {
  request.end = how.end = request.first + length;
  return lower(generate(rule, request), how);
}

}  // namespace

std::int64_t PeriodicActions::size() const {
  return static_cast<std::int64_t>(prologue.size() + epilogue.size()) +
         periods * static_cast<std::int64_t>(period.size());
}

Action PeriodicActions::at(std::int64_t index) const {
  const auto before = static_cast<std::int64_t>(prologue.size());
  if (index < before) return prologue[static_cast<std::size_t>(index)];
  index -= before;
  const auto each = static_cast<std::int64_t>(period.size());
  if (index < periods * each) {
    return shifted(period[static_cast<std::size_t>(index % each)], index / each * step);
  }
  return epilogue[static_cast<std::size_t>(index - periods * each)];
}

bool PeriodicActions::begins_at(std::int64_t index, Minibatch p) const {
  const auto later = [p](const StageActions& actions, std::int64_t from, Minibatch by) {
    const auto first = actions.begin() + std::min<std::ptrdiff_t>(from, std::ssize(actions));
    return std::all_of(first, actions.end(),
                       [&](const Action& action) { return action.minibatch + by >= p; });
  };
  if (!later(prologue, index, 0)) return false;
  index = std::max<std::int64_t>(0, index - std::ssize(prologue));
  const std::int64_t each = std::ssize(period);
  if (index < periods * each) {
    const std::int64_t round = index / each;
    if (!later(period, index % each, round * step)) return false;
    if (round + 1 < periods && !later(period, 0, (round + 1) * step)) return false;
  }
  return later(epilogue, std::max<std::int64_t>(0, index - periods * each), 0);
}

PeriodicActions without_period(StageActions actions) {
  PeriodicActions all;
  all.prologue = std::move(actions);
  return all;
}

PeriodicSchedule periodic_schedule(ScheduleRule rule, const ScheduleRequest& request,
                                   const Lowering& how) {
  const Minibatch length = request.end - request.first;
  const Minibatch step = how.sync == StageSync::waves ? how.in_flight * how.round : 1;
  const Minibatch least = steady_request(rule, request).end + (kSeen + 3) * step;
  if (length > least + 2 * step) {
    // As many minibatches into a period as the whole run.
    const Minibatch brief = least + (length - least) % step;
    auto folded = fold(of_length(rule, request, how, brief),
                       of_length(rule, request, how, brief + step), step, (length - brief) / step);
    ensure(folded.has_value(), "a schedule repeats itself from minibatch to minibatch, or wave");
    return *std::move(folded);
  }
  PeriodicSchedule all;
  for (StageActions& actions : of_length(rule, request, how, length)) {
    all.push_back(without_period(std::move(actions)));
  }
  return all;
}

ActionCursor::ActionCursor(const PeriodicActions& actions, EventPlace place, NextEvent next_event)
    : actions_(actions), place_(place), next_event_(std::move(next_event)), event_(next_event_()) {}

bool ActionCursor::event_is_due() const {
  if (!event_) return false;
  if (place_ == EventPlace::behind_update) return updated_ && *updated_ >= event_->minibatch;
  return index_ == actions_.size() || actions_.at(index_).minibatch >= event_->minibatch;
}

bool ActionCursor::begins_at(Minibatch p) const {
  return actions_.begins_at(index_, p) && (!event_ || event_->minibatch >= p);
}

std::optional<Action> ActionCursor::next() {
  if (event_is_due()) return std::exchange(event_, next_event_());
  if (index_ == actions_.size()) {
    ensure(!event_, "an event behind an update that never comes");
    return std::nullopt;
  }
  const Action action = actions_.at(index_++);
  if (action.kind == ActionKind::update) updated_ = action.minibatch;
  return action;
}

}  // namespace hetpipe
