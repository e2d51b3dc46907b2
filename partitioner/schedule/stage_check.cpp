// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "base/text.h"
#include "partitioner/schedule/schedule_cells.h"

// What one stage of a schedule holds to by itself.
namespace hetpipe {
namespace {

using Keys = std::set<ActionKey>;

// One stage, action by action.
class StageCheck {
 public:
  StageCheck(const Schedule& schedule, std::size_t stage, const ScheduleForm& form,
             const ScheduleParts& parts)
      : schedule_(schedule),
        stage_(stage),
        form_(form),
        parts_(parts),
        virtual_(schedule),
        lowered_(parts.messages && schedule.size() > 1),
        actions_(schedule[stage]) {
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      const Action& action = actions_[i];
      if (is_backward(action)) last_backward_[action.minibatch] = i;
      if (action.kind == ActionKind::forward) forwards_[pass_of(action)].insert(action.micro);
      if (action.kind == ActionKind::recompute) recomputed_.insert(action.chunk);
    }
  }

  void run() {
    for (i_ = 0; i_ < actions_.size(); ++i_) {
      check(actions_[i_]);
      done_[actions_[i_].kind].insert(key_of(actions_[i_]));
    }
    if (!open_.empty()) {
      i_ = open_.begin()->second;
      need(false, "this forward has no backward");
    }
    for (i_ = 0; i_ < actions_.size(); ++i_) {
      check_what_follows(actions_[i_]);
      if (parts_.weights) check_weights_follow(actions_[i_]);
    }
  }

 private:
  using Pass = std::tuple<Minibatch, int, int>;  // of a minibatch through a chunk, by a replica
  static Pass pass_of(const Action& a) { return {a.minibatch, a.chunk, a.replica}; }

  void need(bool condition, const std::string& what) const {
    if (!condition) fault_at(schedule_, {{stage_, i_}}, what);
  }
  bool done(ActionKind kind, const Action& action) const {
    const auto at = done_.find(kind);
    return at != done_.end() && at->second.count(key_of(action)) != 0;
  }
  // The B that takes the micro-batch of `a`.
  Action backward_of(Action a) const {
    if (form_.backward == BackwardForm::by_minibatch) a.micro = 0;
    return a;
  }
  bool has_next(const Action& a) const {
    return schedule_.size() > 1 && virtual_.has_next(static_cast<int>(stage_), a.chunk);
  }
  bool has_previous(const Action& a) const {
    return schedule_.size() > 1 && virtual_.has_previous(static_cast<int>(stage_), a.chunk);
  }
  // All backwards of its minibatch, of every chunk, stand before this place.
  bool minibatch_is_through(const Action& a) const {
    const auto at = last_backward_.find(a.minibatch);
    return at != last_backward_.end() && at->second < i_;
  }

  void check(const Action& action) {
    switch (action.kind) {
      case ActionKind::forward:
        return check_forward(action);
      case ActionKind::backward:
        return check_backward(action);
      case ActionKind::weight_gradient:
        need(form_.backward == BackwardForm::split,
             "backward passes of this schedule are not split");
        need(done(ActionKind::backward, action), "its backward does not come before it");
        return need(!done(action.kind, action), "this weight gradient is done twice");
      case ActionKind::recompute:
        need(done(ActionKind::forward, action) && !done(ActionKind::backward, backward_of(action)),
             "it must come between its forward and its backward");
        return need(!done(action.kind, action), "this forward is recomputed twice");
      case ActionKind::receive: {
        const bool gradients = action.payload == Payload::gradients;
        need(gradients ? has_next(action) : has_previous(action),
             "no stage on that side sends to it");
        need(!gradients || done(ActionKind::forward, action),
             "its gradients come before its forward");
        need(received_[gradients].insert(key_of(action)).second, "this message is received twice");
        return check_gradient_message(action, gradients);
      }
      case ActionKind::send: {
        const bool gradients = action.payload == Payload::gradients;
        need(done(gradients ? ActionKind::backward : ActionKind::forward, action),
             "what it sends is not computed before it");
        need(gradients ? has_previous(action) : has_next(action),
             "no stage on that side receives it");
        need(sent_[gradients].insert(key_of(action)).second, "this message is sent twice");
        return check_gradient_message(action, gradients);
      }
      case ActionKind::update:
      case ActionKind::push:
      case ActionKind::pull:
        return check_weights(action);
      case ActionKind::evaluate:
      case ActionKind::checkpoint:
        break;
    }
  }

  void check_forward(const Action& action) {
    need(!done(action.kind, action), "this forward is done twice");
    if (lowered_ && has_previous(action)) {
      need(received_[false].count(key_of(action)) != 0,
           "no receive brings its activations before it");
    }
    const Minibatch before = action.minibatch - form_.in_flight;
    if (parts_.weights && last_backward_.count(before) != 0) {
      need(done(ActionKind::update, {ActionKind::update, before, 0, 0, action.replica}),
           format("the update of minibatch %lld does not come before it",
                  static_cast<long long>(before)));
    }
    open_[key_of(action)] = i_;
    in_flight_.insert(action.minibatch);
    need(static_cast<int>(in_flight_.size()) <= form_.in_flight,
         format("more than in_flight = %d minibatches are between F and B", form_.in_flight));
  }

  void check_backward(const Action& action) {
    if (form_.backward == BackwardForm::by_minibatch) {
      need(action.micro == 0,
           "one backward is for the whole minibatch, so it names no "
           "micro-batch");
      for (const int micro : forwards_[pass_of(action)]) {
        Action forward = action;
        forward.micro = micro;
        need(done(ActionKind::forward, forward),
             "not all forwards of its minibatch come before it");
        open_.erase(key_of(forward));
      }
    }
    need(done(ActionKind::forward, action), "its forward does not come before it");
    need(!done(action.kind, action), "this backward is done twice");
    if (lowered_ && has_next(action)) {
      need(received_[true].count(key_of(action)) != 0, "no receive brings its gradients before it");
    }
    open_.erase(key_of(action));
    const auto at = open_.lower_bound({action.minibatch, 0, 0, 0});
    if (at == open_.end() || std::get<0>(at->first) != action.minibatch) {
      in_flight_.erase(action.minibatch);
    }
  }

  void check_gradient_message(const Action& action, bool gradients) const {
    need(!gradients || form_.backward != BackwardForm::by_minibatch || action.micro == 0,
         "the gradients of a minibatch are one message here, so it names no micro-batch");
  }

  // The last minibatch of a wave: its update completes a push.
  bool ends_wave(const Action& action) const {
    return (action.minibatch + 1) % (form_.in_flight * form_.round) == 0;
  }
  // Its forward comes after a gate: it is the first to see all of the wave before.
  bool stands_at_gate(const Action& action) const {
    return action.minibatch % (form_.in_flight * form_.round) == form_.in_flight - 1;
  }

  void check_weights(const Action& action) {
    const bool waves = form_.sync == StageSync::waves;
    if (action.kind == ActionKind::update) {
      need(minibatch_is_through(action), "its backward does not come before it");
      need(!done(action.kind, action), "this update is done twice");
      need(waves || done(ActionKind::push, action),
           "its gradients are not given to the all-reduce before it");
    } else if (action.kind == ActionKind::push) {
      if (waves) need(done(ActionKind::update, action), "its update does not come before it");
      need(minibatch_is_through(action), "its backward does not come before it");
      need(!done(action.kind, action), "this push is done twice");
      need(!waves || pushes(action), "its minibatch is not the last one of a wave");
    } else {
      check_pull(action);
    }
  }

  void check_pull(const Action& action) const {
    need(form_.sync == StageSync::waves, "weights that are all-reduced are not pulled");
    need(stands_at_gate(action),
         format("its minibatch is not number %d of a wave", form_.in_flight - 1));
    need(!done(action.kind, action), "this pull is done twice");
    const auto at = done_.find(ActionKind::forward);
    const bool begun = at != done_.end() && holds_minibatch(at->second, action.minibatch);
    need(!begun, "it must come before its forward");
    if (lowered_ && stage_ > 0) {
      need(holds_minibatch(received_[false], action.minibatch),
           "no receive brings the label that it asks for before it");
    }
  }

  // Keys are ordered by their minibatch, micro-batch, chunk and replica.
  static bool holds_minibatch(const Keys& keys, Minibatch p) {
    const auto at = keys.lower_bound({p, 0, 0, 0});
    return at != keys.end() && std::get<0>(*at) == p;
  }

  bool pushes(const Action& action) const {
    return ends_wave(action) || action.minibatch == last_backward_.rbegin()->first;
  }

  void check_what_follows(const Action& action) {
    if (form_.backward == BackwardForm::split && action.kind == ActionKind::backward) {
      need(done(ActionKind::weight_gradient, action), "this backward has no weight gradient");
    }
    if (action.kind == ActionKind::forward) {
      need(static_cast<int>(forwards_[pass_of(action)].size()) == parts_.micro_batches,
           format("its minibatch has %zu micro-batches here, others have %d",
                  forwards_[pass_of(action)].size(), parts_.micro_batches));
      need(recomputed_.count(action.chunk) == 0 || done(ActionKind::recompute, action),
           "others of its chunk are recomputed, this forward is not");
    }
    if (!lowered_) return;
    if (action.kind == ActionKind::forward && has_next(action)) {
      need(sent_[false].count(key_of(action)) != 0, "no send passes its activations on");
    }
    if (action.kind == ActionKind::backward && has_previous(action)) {
      need(sent_[true].count(key_of(action)) != 0, "no send passes its gradients back");
    }
  }

  void check_weights_follow(const Action& action) const {
    const Action whole{action.kind, action.minibatch, 0, 0, action.replica};
    if (is_backward(action)) {
      need(done(ActionKind::update, whole), "no update follows it");
      if (form_.sync == StageSync::waves && pushes(action)) {
        need(done(ActionKind::push, whole), "no push of its wave follows it");
      }
    }
    if (action.kind == ActionKind::forward && form_.sync == StageSync::waves &&
        stands_at_gate(action) &&
        last_backward_.begin()->first + form_.in_flight <= action.minibatch) {
      need(done(ActionKind::pull, whole), "no pull comes before it, at the gate of its wave");
    }
  }

  const Schedule& schedule_;
  std::size_t stage_;
  const ScheduleForm& form_;
  const ScheduleParts& parts_;
  VirtualStages virtual_;
  bool lowered_;
  const StageActions& actions_;
  std::map<Minibatch, std::size_t> last_backward_;  // or W, and where it stands
  std::map<Pass, std::set<int>> forwards_;          // micro-batches
  std::set<int> recomputed_;                        // chunks
  std::size_t i_ = 0;                               // the action that is looked at
  std::map<ActionKind, Keys> done_;
  Keys received_[2];                       // activations, gradients
  Keys sent_[2];                           // likewise
  std::map<ActionKey, std::size_t> open_;  // F without its B yet, and where it stands
  std::set<Minibatch> in_flight_;
};

}  // namespace

void check_stage(const Schedule& schedule, std::size_t stage, const ScheduleForm& form,
                 const ScheduleParts& parts) {
  StageCheck(schedule, stage, form, parts).run();
}

}  // namespace hetpipe
