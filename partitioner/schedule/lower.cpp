// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/lower.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/text.h"
#include "partitioner/schedule/virtual_stages.h"
#include "partitioner/schedule/wave_rules.h"

namespace hetpipe {
namespace {

Action of_minibatch(ActionKind kind, const Action& action) {
  return {kind, action.minibatch, 0, 0, action.replica};
}

// One B takes all micro-batches of its minibatch (nF1B).
bool is_by_minibatch(const Schedule& schedule) {
  bool forward_of_later_micro_batch = false;
  for (const StageActions& actions : schedule) {
    for (const Action& action : actions) {
      if (action.micro == 0) continue;
      if (is_backward(action)) return false;
      forward_of_later_micro_batch = true;
    }
  }
  return forward_of_later_micro_batch;
}

// What is common to all devices.
struct Shape {
  VirtualStages stages;
  bool by_minibatch = false;
  WaveRules waves{};  // those of one virtual worker
};

Shape shape_of(const Schedule& schedule, const Lowering& how) {
  Shape shape{VirtualStages(schedule), is_by_minibatch(schedule)};
  shape.waves.in_flight = how.in_flight;
  shape.waves.round = how.round;
  shape.waves.first_wave = shape.waves.wave_of(how.first);
  shape.waves.end = {how.end};
  return shape;
}

// Lowers the actions of one device.
class StageLowering {
 public:
  StageLowering(const StageActions& actions, const Shape& shape, int device, const Lowering& how)
      : actions_(actions), shape_(shape), device_(device), how_(how) {
    std::size_t added = 0;
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      const Action& action = actions_[i];
      if (is_backward(action)) last_backward_[action.minibatch] = i;
      if (action.kind == ActionKind::weight_gradient) continue;
      added += crosses(virtual_stage(action)) + crosses(virtual_stage(action) - 1);
      if (action.kind == ActionKind::forward && recomputes(virtual_stage(action))) ++added;
    }
    reserve_huge(lowered_, actions_.size() + added + 3 * last_backward_.size());
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
    if (forwards_.count(action.minibatch) == 0 && how_.sync == StageSync::waves) begin(action);
    std::vector<Action>& begun = forwards_[action.minibatch];
    if (shape_.by_minibatch) begun.push_back(action);
    lowered_.push_back(action);
    if (crosses(here)) add(ActionKind::send, action);
  }

  void backward(const Action& action) {
    const int here = virtual_stage(action);
    if (recomputes(here) && !shape_.by_minibatch) add(ActionKind::recompute, action);
    if (recomputes(here) && shape_.by_minibatch) {
      for (const Action& f : forwards_[action.minibatch]) {
        if (f.chunk == action.chunk) add(ActionKind::recompute, f);
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
                 "%lld is done (a wave's gate waits for the previous wave). Raise in_flight.",
                 how_.in_flight, device_, static_cast<long long>(action.minibatch),
                 static_cast<long long>(needed)));
    }
    if (shape_.waves.gate_before(action.minibatch)) {
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
    if (shape_.waves.ends_wave(VirtualWorkerId{0}, action.minibatch)) lowered_.push_back(push);
  }

  int virtual_stage(const Action& action) const { return shape_.stages.of(device_, action.chunk); }
  // What leaves a virtual stage for the next one goes to another device.
  bool crosses(int virtual_stage) const {
    return shape_.stages.devices > 1 && virtual_stage >= 0 &&
           virtual_stage + 1 < shape_.stages.count();
  }
  bool recomputes(int virtual_stage) const {
    return !how_.recompute.empty() && how_.recompute[static_cast<std::size_t>(virtual_stage)];
  }
  // `action`: the F or B that it belongs to.
  void add(ActionKind kind, Action action) {
    const bool message = kind == ActionKind::send || kind == ActionKind::receive;
    if (message && action.kind == ActionKind::backward) action.payload = Payload::gradients;
    action.kind = kind;
    lowered_.push_back(action);
  }

  const StageActions& actions_;
  const Shape& shape_;
  int device_;
  const Lowering& how_;
  std::map<Minibatch, std::size_t> last_backward_;
  // Of minibatches that are not done; which they are is kept where one B takes them all.
  std::map<Minibatch, std::vector<Action>> forwards_;
  StageActions lowered_;
};

}  // namespace

Schedule lower(const Schedule& schedule, const Lowering& how) {
  ensure(how.in_flight > 0 && how.first % (how.in_flight * how.round) == 0,
         "a run starts at the first minibatch of a wave");
  const Shape shape = shape_of(schedule, how);
  ensure(how.recompute.empty() ||
             how.recompute.size() == static_cast<std::size_t>(shape.stages.count()),
         "recompute is given for every virtual stage");
  Schedule lowered;
  for (const StageActions& actions : schedule) {
    lowered.push_back(StageLowering(actions, shape, static_cast<int>(lowered.size()), how).run());
  }
  return lowered;
}

}  // namespace hetpipe
