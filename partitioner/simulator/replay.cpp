// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/replay.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

std::string action_text(Timed what, const RecordedPlace& where, Minibatch minibatch, int micro) {
  return format("%s of minibatch %lld, micro-batch %d, at %s", std::string(to_string(what)).c_str(),
                static_cast<long long>(minibatch), micro, to_string(where).c_str());
}

}  // namespace

Replay::Replay(const Durations& durations, std::size_t virtual_workers, std::optional<int> asked)
    : durations_(durations), played_(durations.rows().size(), false) {
  for (std::size_t vw = 0; vw < virtual_workers; ++vw) {
    recorded_.push_back(durations.minibatches_of(static_cast<int>(vw)));
    minibatches_.push_back(asked ? *asked : recorded_.back());
    if (recorded_.back() == 0) {
      throw UserError(
          durations.file(),
          format("has no row of virtual worker %zu (the plan has %zu of them). Give the "
                 "plan that was recorded, or add its rows.",
                 vw, virtual_workers));
    }
    replayed_.minibatches = std::max(replayed_.minibatches, minibatches_.back());
  }
  for (int what = 0; what <= static_cast<int>(Timed::snapshot); ++what) {
    has_.push_back(durations.has(static_cast<Timed>(what)));
  }
  replayed_.rest = static_cast<std::int64_t>(durations.rest());
}

std::optional<double> Replay::find(Timed what, const RecordedPlace& where, Minibatch p, int micro) {
  if (p >= recorded_of(where)) {
    const auto [found, added] = medians_.try_emplace({what, where}, std::nullopt);
    if (added) found->second = durations_.median(what, where);
    return found->second;
  }
  const Duration* row = durations_.find(what, where, durations_.first() + p, micro);
  if (row == nullptr) return std::nullopt;
  const auto index = static_cast<std::size_t>(row - durations_.rows().data());
  replayed_.recorded += !played_[index];
  played_[index] = true;
  return row->seconds;
}

double Replay::computing(Timed what, const RecordedPlace& where, Minibatch p, int micro,
                         double modelled) {
  if (!has_[static_cast<std::size_t>(what)]) {
    const std::string name(to_string(what));
    auto& kinds = replayed_.of_profile;
    if (std::find(kinds.begin(), kinds.end(), name) == kinds.end()) kinds.push_back(name);
    return modelled;
  }
  const auto seconds = find(what, where, p, micro);
  if (!seconds) refuse_missing(what, where, p, micro);
  replayed_.medians += p >= recorded_of(where);
  return *seconds;
}

double Replay::sum(const RecordedPlace& where, Minibatch p) {
  const auto seconds = find(Timed::sum, where, p, 0);
  if (!seconds) refuse_missing(Timed::sum, where, p, 0);
  return *seconds;
}

std::optional<double> Replay::waited(Timed what, const RecordedPlace& where, Minibatch p,
                                     int micro) {
  return has_[static_cast<std::size_t>(what)] ? find(what, where, p, micro) : std::nullopt;
}

void Replay::refuse_missing(Timed what, const RecordedPlace& where, Minibatch p, int micro) const {
  const Minibatch minibatch = durations_.first() + p;
  const std::string missing = "has no " + action_text(what, where, minibatch, micro);
  if (p >= recorded_of(where)) {
    throw UserError(durations_.file(),
                    missing +
                        " (nor of any other minibatch there, whose median it would take). "
                        "Give the plan that was recorded, or add the rows.");
  }
  throw UserError(
      durations_.file(),
      missing + format(" (the plan has it, and the file has minibatches %lld to %lld). "
                       "Give the plan that was recorded, or remove the minibatches "
                       "that are not complete.",
                       static_cast<long long>(durations_.first()),
                       static_cast<long long>(durations_.first() + recorded_of(where) - 1)));
}

void Replay::check_all_played() const {
  Problems problems;
  for (std::size_t i = 0; i < played_.size(); ++i) {
    const Duration& row = durations_.rows()[i];
    if (played_[i] || row.minibatch - durations_.first() >= replayed_.minibatches) continue;
    problems.add(durations_.file() + (row.line > 0 ? ":" + std::to_string(row.line) : ""),
                 action_text(row.what, row.where, row.minibatch, row.micro) +
                     " is not in the plan (whose actions are replayed). Give the plan that was "
                     "recorded, or remove the row.");
    break;  // the others have the same reason
  }
  problems.throw_if_any();
}

}  // namespace hetpipe
