// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/lower.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

Action of_minibatch(ActionKind kind, const Action& action) {
  return {kind, action.minibatch, 0, 0, action.replica};
}

bool is_backward(const Action& action) {
  return action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient;
}

// What is common to all devices.
struct Shape {
  int devices = 1;
  int chunks = 1;
  bool by_minibatch = false;  // one B takes all micro-batches (nF1B)
};

Shape shape_of(const Schedule& schedule) {
  Shape shape{static_cast<int>(schedule.size()), 1, false};
  bool backward_of_later_micro_batch = false;
  for (const StageActions& actions : schedule) {
    for (const Action& action : actions) {
      shape.chunks = std::max(shape.chunks, action.chunk + 1);
      if (action.micro == 0) continue;
      (is_backward(action) ? backward_of_later_micro_batch : shape.by_minibatch) = true;
    }
  }
  if (backward_of_later_micro_batch) shape.by_minibatch = false;
  return shape;
}

// Lowers the actions of one device.
class StageLowering {
 public:
  StageLowering(const StageActions& actions, const Shape& shape, int device, const Lowering& how)
      : actions_(actions), shape_(shape), device_(device), how_(how) {
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      if (is_backward(actions_[i])) last_backward_[actions_[i].minibatch] = i;
    }
  }

  StageActions run() {
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      const Action& action = actions_[i];
      if (action.kind == ActionKind::forward) {
        forward(action);
      } else if (action.kind == ActionKind::backward) {
        backward(action);
      } else {
        ensure(action.kind == ActionKind::weight_gradient, "schedules to lower have F, B and W");
        lowered_.push_back(action);
      }
      if (is_backward(action) && last_backward_[action.minibatch] == i) minibatch_is_done(action);
    }
    return std::move(lowered_);
  }

 private:
  void forward(const Action& action) {
    const int here = virtual_stage(action);
    if (crosses(here - 1)) add(ActionKind::receive, action);  // brings the label the pull asks for
    if (forwards_[action.minibatch].empty() && how_.sync == StageSync::waves) begin(action);
    forwards_[action.minibatch].push_back(action);
    lowered_.push_back(action);
    if (crosses(here)) add(ActionKind::send, action);
  }

  void backward(const Action& action) {
    const int here = virtual_stage(action);
    if (recomputes(here)) {
      for (const Action& f : forwards_[action.minibatch]) {
        const bool part_of_it =
            f.chunk == action.chunk && (shape_.by_minibatch || f.micro == action.micro);
        if (part_of_it) add(ActionKind::recompute, f);
      }
    }
    if (crosses(here)) add(ActionKind::receive, action);
    lowered_.push_back(action);
    if (crosses(here - 1)) add(ActionKind::send, action);
  }

  void begin(const Action& action) {
    const Minibatch needed = action.minibatch - how_.in_flight;  // its updates are to be seen
    if (needed >= how_.first && forwards_.count(needed) != 0) {
      throw UserError(
          "schedule",
          format("waves of %d minibatches, and stage %d begins minibatch %lld before minibatch "
                 "%lld is done (the gate of a wave waits for the one before). Raise in_flight.",
                 how_.in_flight, device_, static_cast<long long>(action.minibatch),
                 static_cast<long long>(needed)));
    }
    if (ends_wave(action) && action.minibatch - how_.first >= how_.in_flight) {
      lowered_.push_back(of_minibatch(ActionKind::pull, action));
    }
  }

  void minibatch_is_done(const Action& action) {
    forwards_.erase(action.minibatch);
    const Action push = of_minibatch(ActionKind::push, action);
    const Action update = of_minibatch(ActionKind::update, action);
    if (how_.sync == StageSync::all_reduce) {
      lowered_.insert(lowered_.end(), {push, update});
      return;
    }
    lowered_.push_back(update);
    if (ends_wave(action) || action.minibatch == how_.end - 1) lowered_.push_back(push);
  }

  bool ends_wave(const Action& action) const {
    return (action.minibatch + 1) % how_.in_flight == 0;
  }
  int virtual_stage(const Action& action) const { return action.chunk * shape_.devices + device_; }
  // What leaves a virtual stage for the next one goes to another device.
  bool crosses(int virtual_stage) const {
    return shape_.devices > 1 && virtual_stage >= 0 &&
           virtual_stage + 1 < shape_.devices * shape_.chunks;
  }
  bool recomputes(int virtual_stage) const {
    return !how_.recompute.empty() && how_.recompute[static_cast<std::size_t>(virtual_stage)];
  }
  void add(ActionKind kind, Action action) {
    action.kind = kind;
    lowered_.push_back(action);
  }

  const StageActions& actions_;
  const Shape& shape_;
  int device_;
  const Lowering& how_;
  std::map<Minibatch, std::size_t> last_backward_;
  std::map<Minibatch, std::vector<Action>> forwards_;  // of minibatches that are not done
  StageActions lowered_;
};

}  // namespace

Schedule lower(const Schedule& schedule, const Lowering& how) {
  ensure(how.in_flight > 0 && how.first % how.in_flight == 0,
         "a run starts at the first minibatch of a wave");
  const Shape shape = shape_of(schedule);
  ensure(how.recompute.empty() ||
             how.recompute.size() == schedule.size() * static_cast<std::size_t>(shape.chunks),
         "recompute is told for every virtual stage");
  Schedule lowered;
  for (const StageActions& actions : schedule) {
    lowered.push_back(StageLowering(actions, shape, static_cast<int>(lowered.size()), how).run());
  }
  return lowered;
}

Schedule lower_wsp(const Schedule& schedule, int in_flight, Minibatch first, Minibatch end) {
  return lower(schedule, {StageSync::waves, in_flight, first, end});
}

}  // namespace hetpipe
