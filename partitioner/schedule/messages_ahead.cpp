// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/messages_ahead.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace hetpipe {
namespace {

using PassNumber =
    std::pair<Minibatch, int>;  // of a micro-batch; one of all of them has micro-batch 0

PassNumber number_of(const Action& action) { return {action.minibatch, action.micro}; }

// How many actions of a kind, which take a message each, stand before each one of another.
class TakenBefore {
 public:
  TakenBefore(const StageActions& actions, ActionKind taking, ActionKind of) {
    int count = 0;
    for (const Action& action : actions) {
      if (action.kind == of) taken_.emplace_back(number_of(action), count);
      if (action.kind == taking) ++count;
    }
    std::sort(taken_.begin(), taken_.end());
  }

  int at(const PassNumber& number) const {
    const auto found = std::lower_bound(taken_.begin(), taken_.end(), std::pair(number, 0));
    if (found == taken_.end() || found->first != number) throw std::out_of_range("no such pass");
    return found->second;
  }

 private:
  std::vector<std::pair<PassNumber, int>> taken_;
};

int count_of(const StageActions& actions, ActionKind kind) {
  return static_cast<int>(std::count_if(actions.begin(), actions.end(),
                                        [&](const Action& a) { return a.kind == kind; }));
}

int forwards_of_backward(const StageActions& actions) {
  const int backwards = std::max(1, count_of(actions, ActionKind::backward));
  return std::max(1, count_of(actions, ActionKind::forward) / backwards);
}

// A forward goes behind one of the device before, which its own order puts behind backwards: those
// have taken their gradients.
int gradients_ahead(const StageActions& here, const StageActions& before, int most_held) {
  const TakenBefore taken_by(before, ActionKind::backward, ActionKind::forward);
  const bool split = count_of(here, ActionKind::weight_gradient) > 0;
  const int of_backward = forwards_of_backward(here);
  int held = 0, sent = 0, taken = 0, ahead = 0;
  for (const Action& action : here) {
    switch (action.kind) {
      case ActionKind::forward:
        ++held;
        taken = std::max(taken, taken_by.at(number_of(action)));
        break;
      case ActionKind::backward:
        ahead = std::max(ahead, sent - taken - (most_held - held) / of_backward);
        ++sent;
        if (!split) held -= of_backward;
        break;
      case ActionKind::weight_gradient:
        --held;
        break;
      default:
        break;
    }
  }
  return ahead;
}

// A backward goes behind one of the next device, which has taken activations until then.
int activations_ahead(const StageActions& here, const StageActions& next) {
  const TakenBefore taken_by(next, ActionKind::forward, ActionKind::backward);
  const int of_backward = forwards_of_backward(here);
  int held = 0, sent = 0, taken = 0, ahead = 0;
  bool filling = true;  // the pipeline, from when it was empty to the first backward
  for (const Action& action : here) {
    if (action.kind == ActionKind::backward) {
      taken = std::max(taken, taken_by.at(number_of(action)));
      held -= of_backward;
      filling = held == 0;
    } else if (action.kind == ActionKind::forward) {
      ++held;
      ++sent;
      if (!filling) ahead = std::max(ahead, sent - taken - 2);
    }
  }
  return ahead;
}

}  // namespace

MessagesAhead count_messages_ahead(const Schedule& schedule, int device, int most_held) {
  const auto d = static_cast<std::size_t>(device);
  const StageActions& here = schedule[d];
  const bool chunks =
      std::any_of(here.begin(), here.end(), [](const Action& a) { return a.chunk > 0; });
  if (chunks) return {};
  MessagesAhead ahead;
  if (d > 0) ahead.gradients = gradients_ahead(here, schedule[d - 1], most_held);
  if (d + 1 < schedule.size()) ahead.activations = activations_ahead(here, schedule[d + 1]);
  return ahead;
}

}  // namespace hetpipe
