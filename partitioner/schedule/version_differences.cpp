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
  std::vector<double> forwards;   // each ends
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
        pass.forwards.push_back(table.end[k][i]);
      } else if (action.kind == ActionKind::backward) {
        pass.backward = std::min(pass.backward, table.start[k][i]);
        pass.done = std::max(pass.done, table.end[k][i]);
        pass.backwards.push_back(table.end[k][i]);
      }
    }
  }
  return passes;
}

// What ends at a stage after `from` and not after `until`; updates are the last B of other
// minibatches than `own`.
struct Between {
  int forwards = 0;
  int backwards = 0;
  int updates = 0;
};
Between between(const Passes& stage, Minibatch own, double from, double until) {
  const auto within = [&](double end) { return end > from && end <= until; };
  const auto ends = [&](const std::vector<double>& of) {
    return static_cast<int>(std::count_if(of.begin(), of.end(), within));
  };
  Between count;
  for (const auto& [p, pass] : stage) {
    count.forwards += ends(pass.forwards);
    count.backwards += ends(pass.backwards);
    count.updates += p != own && within(pass.done) ? 1 : 0;
  }
  return count;
}

// `forward` and `backward` give what a Between and the backwards of a minibatch come to.
template <class Forward, class Backward>
std::vector<VersionDifference> largest(const Schedule& schedule, const Forward& forward,
                                       const Backward& backward) {
  const auto passes = passes_of(schedule);
  std::vector<VersionDifference> differences;
  for (const Passes& stage : passes) {
    VersionDifference most;
    for (const auto& [p, pass] : stage) {
      const double until = passes.front().at(p).done;
      const auto per_minibatch = static_cast<int>(pass.backwards.size());
      most.forward =
          std::max(most.forward, forward(between(stage, p, pass.forward, until), per_minibatch));
      most.backward =
          std::max(most.backward, backward(between(stage, p, pass.backward, until), per_minibatch));
    }
    differences.push_back(most);
  }
  return differences;
}

// a / b to the nearest integer, halves to the even one; a >= 0.
int rounded_ratio(int a, int b) {
  const int whole = a / b;
  const int twice_the_rest = 2 * (a % b);
  if (twice_the_rest == b) return whole + whole % 2;
  return twice_the_rest < b ? whole : whole + 1;
}

}  // namespace

std::vector<VersionDifference> count_version_differences(const Schedule& schedule) {
  const auto updates = [](const Between& count, int) { return count.updates; };
  return largest(schedule, updates, updates);
}

std::vector<VersionDifference> count_prediction_steps(const Schedule& schedule) {
  // The own last B is no step.
  const auto halves = [](const Between& count, int per_minibatch) {
    return rounded_ratio(std::max(0, count.forwards + count.backwards - 2), 2 * per_minibatch);
  };
  const auto wholes = [](const Between& count, int per_minibatch) {
    return rounded_ratio(std::max(0, count.backwards - 1), per_minibatch);
  };
  return largest(schedule, halves, wholes);
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
