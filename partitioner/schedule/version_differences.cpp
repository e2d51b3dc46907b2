// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "partitioner/schedule/counts.h"
#include "partitioner/schedule/timetable.h"

namespace hetpipe {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// When the passes of one minibatch go through one stage, in slots.
struct Pass {
  double forward = kNever;        // the first F starts
  double backward = kNever;       // the first B starts
  double done = -1;               // the last B ends
  std::vector<double> backwards;  // each ends
};
using Passes = std::map<Minibatch, Pass>;

std::vector<Passes> passes_of(const Schedule& schedule) {
  const Timetable table = play_in_slots(schedule);
  std::vector<Passes> passes(schedule.size());
  for (std::size_t k = 0; k < schedule.size(); ++k) {
    for (std::size_t i = 0; i < table.end[k].size(); ++i) {
      const Action& action = schedule[k][i];
      Pass& pass = passes[k][action.minibatch];
      if (action.kind == ActionKind::forward) {
        pass.forward = std::min(pass.forward, table.start[k][i]);
      } else if (action.kind == ActionKind::backward) {
        pass.backward = std::min(pass.backward, table.start[k][i]);
        pass.done = std::max(pass.done, table.end[k][i]);
        pass.backwards.push_back(table.end[k][i]);
      }
    }
  }
  return passes;
}

// Backwards at a stage that end after `from` and not after `until`: all of them, or the last ones
// of other minibatches than `own`.
struct Between {
  int backwards = 0;
  int updates = 0;
};
Between between(const Passes& stage, Minibatch own, double from, double until) {
  const auto within = [&](double end) { return end > from && end <= until; };
  Between count;
  for (const auto& [p, pass] : stage) {
    count.backwards +=
        static_cast<int>(std::count_if(pass.backwards.begin(), pass.backwards.end(), within));
    count.updates += p != own && within(pass.done) ? 1 : 0;
  }
  return count;
}

// `count` gives what a Between and the backwards of a minibatch come to.
template <class Count>
std::vector<VersionDifference> largest(const Schedule& schedule, const Count& count) {
  const auto passes = passes_of(schedule);
  std::vector<VersionDifference> differences;
  for (const Passes& stage : passes) {
    VersionDifference most;
    for (const auto& [p, pass] : stage) {
      const double until = passes.front().at(p).done;
      const auto per_minibatch = static_cast<int>(pass.backwards.size());
      most.forward =
          std::max(most.forward, count(between(stage, p, pass.forward, until), per_minibatch));
      most.backward =
          std::max(most.backward, count(between(stage, p, pass.backward, until), per_minibatch));
    }
    differences.push_back(most);
  }
  return differences;
}

}  // namespace

std::vector<VersionDifference> count_version_differences(const Schedule& schedule) {
  return largest(schedule, [](const Between& count, int) { return count.updates; });
}

std::vector<VersionDifference> count_prediction_steps(const Schedule& schedule) {
  return largest(schedule, [](const Between& count, int per_minibatch) {
    const int others = count.backwards - 1;
    const int whole = others / per_minibatch;
    const int twice_the_rest = 2 * (others % per_minibatch);
    if (twice_the_rest == per_minibatch) return whole + whole % 2;  // halves to the even one
    return twice_the_rest < per_minibatch ? whole : whole + 1;
  });
}

int count_update_sequences(const Schedule& schedule) {
  const auto passes = passes_of(schedule);
  Minibatch most = 0;
  for (const auto& [p, pass] : passes.back()) {
    Minibatch newest = passes.back().begin()->first - 1;  // the initial weights
    for (const auto& [q, other] : passes.front()) {
      if (other.done <= pass.backward) newest = std::max(newest, q);
    }
    most = std::max(most, p - newest);
  }
  return static_cast<int>(most);
}

}  // namespace hetpipe
