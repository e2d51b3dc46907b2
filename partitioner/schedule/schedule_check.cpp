// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "partitioner/schedule/schedule_cells.h"

// validate(): what each stage holds to by itself, what the messages of two stages hold to, and
// whether everybody can go on (schedule_play.cpp).
namespace hetpipe {
namespace {

using Keys = std::set<ActionKey>;

bool is_backward(const Action& action) {
  return action.kind == ActionKind::backward || action.kind == ActionKind::weight_gradient;
}

// One stage, action by action.
class StageCheck {
 public:
  StageCheck(const Schedule& schedule, std::size_t stage, const ScheduleForm& form, bool lowered)
      : schedule_(schedule),
        stage_(stage),
        form_(form),
        virtual_(schedule),
        lowered_(lowered && schedule.size() > 1),
        actions_(schedule[stage]) {
    for (std::size_t i = 0; i < actions_.size(); ++i) {
      const Action& action = actions_[i];
      if (is_backward(action)) last_backward_[action.minibatch] = i;
      if (action.kind == ActionKind::forward) forwards_[pass_of(action)].insert(action.micro);
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
    for (i_ = 0; i_ < actions_.size(); ++i_) check_what_follows(actions_[i_]);
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
        need(form_.backward == BackwardForm::split, "the backwards of this schedule are whole");
        need(done(ActionKind::backward, action), "its backward does not stand before it");
        return need(!done(action.kind, action), "this weight gradient is done twice");
      case ActionKind::recompute:
        return need(done(ActionKind::forward, action) && !done(ActionKind::backward, action),
                    "it must stand between its forward and its backward");
      case ActionKind::receive: {
        const bool gradients = done(ActionKind::forward, action);
        need(gradients ? has_next(action) : has_previous(action),
             "no stage on that side sends to it");
        need(received_[gradients].insert(key_of(action)).second, "this message is received twice");
        return check_gradient_message(action, gradients);
      }
      case ActionKind::send: {
        const bool gradients = done(ActionKind::backward, action);
        need(done(ActionKind::forward, action), "what it sends is not computed before it");
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
    open_[key_of(action)] = i_;
    in_flight_.insert(action.minibatch);
    need(static_cast<int>(in_flight_.size()) <= form_.in_flight,
         format("more than in_flight = %d minibatches stand between F and B", form_.in_flight));
  }

  void check_backward(const Action& action) {
    if (form_.backward == BackwardForm::by_minibatch) {
      need(action.micro == 0,
           "one backward takes its whole minibatch, so that it names no "
           "micro-batch");
      for (const int micro : forwards_[pass_of(action)]) {
        Action forward = action;
        forward.micro = micro;
        need(done(ActionKind::forward, forward),
             "not all forwards of its minibatch stand before it");
        open_.erase(key_of(forward));
      }
    }
    need(done(ActionKind::forward, action), "its forward does not stand before it");
    need(!done(action.kind, action), "this backward is done twice");
    if (lowered_ && has_next(action)) {
      need(received_[true].count(key_of(action)) != 0, "no receive brings its gradients before it");
    }
    open_.erase(key_of(action));
    // Keys are ordered by their minibatch, micro-batch, chunk and replica.
    const auto at = open_.lower_bound({action.minibatch, 0, 0, 0});
    if (at == open_.end() || std::get<0>(at->first) != action.minibatch) {
      in_flight_.erase(action.minibatch);
    }
  }

  void check_gradient_message(const Action& action, bool gradients) const {
    need(!gradients || form_.backward != BackwardForm::by_minibatch || action.micro == 0,
         "the gradients of a minibatch are one message here, so that it names no micro-batch");
  }

  void check_weights(const Action& action) {
    const bool waves = form_.sync == StageSync::waves;
    if (action.kind == ActionKind::update) {
      need(minibatch_is_through(action), "its backward does not stand before it");
      need(!done(action.kind, action), "this update is done twice");
      need(waves || done(ActionKind::push, action),
           "its gradients are not handed to the all-reduce before it");
    } else if (action.kind == ActionKind::push) {
      if (waves) need(done(ActionKind::update, action), "its update does not stand before it");
      need(minibatch_is_through(action), "its backward does not stand before it");
      need(!done(action.kind, action), "this push is done twice");
    } else {
      const auto& forwards = done_[ActionKind::forward];
      const auto at = forwards.lower_bound({action.minibatch, 0, 0, 0});
      need(at == forwards.end() || std::get<0>(*at) != action.minibatch,
           "it must stand before its forward");
    }
  }

  void check_what_follows(const Action& action) {
    if (form_.backward == BackwardForm::split && action.kind == ActionKind::backward) {
      need(done(ActionKind::weight_gradient, action), "this backward has no weight gradient");
    }
    if (!lowered_) return;
    if (action.kind == ActionKind::forward && has_next(action)) {
      need(sent_[false].count(key_of(action)) != 0, "no send takes its activations on");
    }
    if (action.kind == ActionKind::backward && has_previous(action)) {
      need(sent_[true].count(key_of(action)) != 0, "no send takes its gradients back");
    }
  }

  const Schedule& schedule_;
  std::size_t stage_;
  const ScheduleForm& form_;
  VirtualStages virtual_;
  bool lowered_;
  const StageActions& actions_;
  std::map<Minibatch, std::size_t> last_backward_;  // or W, and where it stands
  std::map<Pass, std::set<int>> forwards_;          // micro-batches
  std::size_t i_ = 0;                               // the action that is looked at
  std::map<ActionKind, Keys> done_;
  Keys received_[2];                       // activations, gradients
  Keys sent_[2];                           // likewise
  std::map<ActionKey, std::size_t> open_;  // F without its B yet, and where it stands
  std::set<Minibatch> in_flight_;
};

std::vector<Cell> messages(const Schedule& schedule, std::size_t k, ActionKind kind,
                           Payload payload) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < schedule[k].size(); ++i) {
    if (schedule[k][i].kind == kind && payload_of(schedule[k], i) == payload)
      cells.push_back({k, i});
  }
  return cells;
}

// What stage `from` sends and stage `to` receives; `by` is where the virtual stage of the sender is
// as the receiver sees it.
void check_same_order(const Schedule& schedule, std::size_t from, std::size_t to, Payload payload) {
  const VirtualStages stages(schedule);
  const int by = payload == Payload::activations ? -1 : 1;
  const auto sends = messages(schedule, from, ActionKind::send, payload);
  const auto receives = messages(schedule, to, ActionKind::receive, payload);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    if (i >= sends.size()) fault_at(schedule, {receives[i]}, "its message is never sent");
    const Action& receive = schedule[to][receives[i].index];
    const Action& send = schedule[from][sends[i].index];
    if (key_of(neighbour(stages, to, receive, by).action) == key_of(send)) continue;
    fault_at(schedule, {receives[i]},
             format("stage %zu sends %s in this place (messages between two stages are received "
                    "in the order in which they are sent)",
                    from, to_string(send).c_str()));
  }
  if (sends.size() > receives.size()) {
    fault_at(schedule, {sends[receives.size()]}, "its message is never received");
  }
}

}  // namespace

void validate(const Schedule& schedule, const ScheduleForm& form) {
  bool lowered = false;
  for (const StageActions& actions : schedule) {
    lowered = lowered || std::any_of(actions.begin(), actions.end(), [](const Action& a) {
                return a.kind == ActionKind::send || a.kind == ActionKind::receive;
              });
  }
  for (std::size_t k = 0; k < schedule.size(); ++k) {
    StageCheck(schedule, k, form, lowered).run();
  }
  for (std::size_t k = 0; lowered && k < schedule.size(); ++k) {
    const std::size_t next = (k + 1) % schedule.size();
    check_same_order(schedule, k, next, Payload::activations);
    check_same_order(schedule, next, k, Payload::gradients);
  }
  check_it_plays(schedule, form);
}

void validate(const Schedule& schedule, int in_flight) {
  validate(schedule, ScheduleForm{in_flight, BackwardForm::whole, StageSync::waves});
}

}  // namespace hetpipe
