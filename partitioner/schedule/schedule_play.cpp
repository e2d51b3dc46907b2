// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "partitioner/schedule/schedule_cells.h"

namespace hetpipe {
namespace {

using Done = std::set<std::pair<ActionKind, ActionKey>>;

class Player {
 public:
  Player(const Schedule& schedule, const ScheduleForm& form)
      : schedule_(schedule),
        form_(form),
        stages_(schedule),
        next_(schedule.size(), 0),
        done_(schedule.size()),
        sent_(schedule.size()) {
    for (const StageActions& actions : schedule) {
      lowered_ = lowered_ || std::any_of(actions.begin(), actions.end(), [](const Action& a) {
                   return a.kind == ActionKind::receive;
                 });
    }
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t k = 0; k < schedule_.size(); ++k) {
        while (next_[k] < schedule_[k].size() && ready(k, next_[k])) {
          step(k);
          moved = true;
        }
      }
    }
    std::set<Cell> stuck;
    for (std::size_t k = 0; k < schedule_.size(); ++k) {
      if (next_[k] < schedule_[k].size()) stuck.insert({k, next_[k]});
    }
    if (!stuck.empty()) {
      fault_at(schedule_, stuck, "deadlock: each marked action waits for one that comes later");
    }
  }

 private:
  void step(std::size_t k) {
    const Action& action = schedule_[k][next_[k]];
    done_[k].insert({action.kind, key_of(action)});
    if (action.kind == ActionKind::send) {
      sent_[k][action.payload].insert(key_of(action));
    }
    ++next_[k];
  }

  bool ready(std::size_t k, std::size_t i) const {
    const Action& action = schedule_[k][i];
    const auto device = static_cast<int>(k);
    if (action.kind == ActionKind::receive) {
      const int by = action.payload == Payload::activations ? -1 : 1;
      const Needed send = neighbour(stages_, k, action, by);
      const auto& sent = sent_[send.device];
      const auto at = sent.find(action.payload);
      return at != sent.end() && at->second.count(key_of(send.action)) != 0;
    }
    // Without messages the passes themselves wait for each other. So do those of chunks that
    // follow each other on one device, lowered or not.
    const bool alone = lowered_ && stages_.devices > 1;
    if (!alone && action.kind == ActionKind::forward &&
        stages_.has_previous(device, action.chunk)) {
      return is_done(neighbour(stages_, k, action, -1));
    }
    if (!alone && action.kind == ActionKind::backward && stages_.has_next(device, action.chunk)) {
      return is_done(neighbour(stages_, k, action, 1));
    }
    if (action.kind == ActionKind::pull) return own_wave_is_in(action);
    return true;
  }

  bool is_done(const Needed& needed) const {
    return done_[needed.device].count({needed.action.kind, key_of(needed.action)}) != 0;
  }

  // The gate at D = 0 waits for this virtual worker's own wave as well: every stage that pushes the
  // wave before must have done so, and the snapshot that any stage takes has it.
  bool own_wave_is_in(const Action& pull) const {
    Action push = pull;
    push.kind = ActionKind::push;
    push.minibatch -= form_.in_flight;
    for (std::size_t k = 0; k < schedule_.size(); ++k) {
      const bool pushes =
          std::find(schedule_[k].begin(), schedule_[k].end(), push) != schedule_[k].end();
      if (pushes && !is_done({k, push})) return false;
    }
    return true;
  }

  const Schedule& schedule_;
  const ScheduleForm& form_;
  VirtualStages stages_;
  bool lowered_ = false;
  std::vector<std::size_t> next_;
  std::vector<Done> done_;
  std::vector<std::map<Payload, std::set<ActionKey>>> sent_;
};

}  // namespace

void check_it_plays(const Schedule& schedule, const ScheduleForm& form) {
  Player(schedule, form).run();
}

}  // namespace hetpipe
