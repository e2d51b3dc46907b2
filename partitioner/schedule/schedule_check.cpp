// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/schedule/schedule.h"

namespace hetpipe {
namespace {

using Key = std::tuple<Minibatch, int, int, int>;  // an action without its kind

Key key_of(const Action& a) { return {a.minibatch, a.micro, a.chunk, a.replica}; }

struct Cell {
  std::size_t stage;
  std::size_t index;
  auto operator<=>(const Cell&) const = default;
};

std::string table(const Schedule& schedule, const std::set<Cell>& marks) {
  std::size_t columns = 0;
  for (const StageActions& actions : schedule) columns = std::max(columns, actions.size());
  std::vector<std::size_t> width(columns, 0);
  const auto cell = [&](std::size_t k, std::size_t i) {
    const std::string text = to_string(schedule[k][i]);
    return marks.count({k, i}) != 0 ? ">" + text + "<" : " " + text + " ";
  };
  for (std::size_t k = 0; k < schedule.size(); ++k) {
    for (std::size_t i = 0; i < schedule[k].size(); ++i) {
      width[i] = std::max(width[i], cell(k, i).size());
    }
  }
  std::string text;
  for (std::size_t k = 0; k < schedule.size(); ++k) {
    std::string line = format("  stage %zu:", k);
    for (std::size_t i = 0; i < schedule[k].size(); ++i) {
      const std::string shown = cell(k, i);
      line += shown + std::string(width[i] - shown.size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += "\n" + line;
  }
  return text;
}

class ScheduleCheck {
 public:
  ScheduleCheck(const Schedule& schedule, int in_flight)
      : schedule_(schedule), in_flight_(in_flight) {
    for (const StageActions& actions : schedule) {
      lowered_ = lowered_ || std::any_of(actions.begin(), actions.end(), [](const Action& a) {
                   return a.kind == ActionKind::send || a.kind == ActionKind::receive;
                 });
    }
  }

  void run() {
    for (std::size_t k = 0; k < schedule_.size(); ++k) check_stage(k);
    for (std::size_t k = 0; k + 1 < schedule_.size(); ++k) {
      check_same_order(messages(k, ActionKind::send, Payload::activations),
                       messages(k + 1, ActionKind::receive, Payload::activations));
      check_same_order(messages(k + 1, ActionKind::send, Payload::gradients),
                       messages(k, ActionKind::receive, Payload::gradients));
    }
    play();
  }

 private:
  [[noreturn]] void fault(const std::set<Cell>& cells, const std::string& what) const {
    const Cell& at = *cells.begin();
    throw UserError("schedule", format("stage %zu, action %zu (%s): ", at.stage, at.index,
                                       to_string(schedule_[at.stage][at.index]).c_str()) +
                                    what + ". Correct the order." + table(schedule_, cells));
  }

  // What one stage must hold to by itself.
  void check_stage(std::size_t k) const {
    const StageActions& actions = schedule_[k];
    const bool front = k == 0;
    const bool last = k + 1 == schedule_.size();
    std::map<ActionKind, std::set<Key>> done;
    std::map<Payload, std::set<Key>> received;
    std::map<Payload, std::set<Key>> sent;
    std::map<Key, std::size_t> open;  // F without its B yet, and where it stands
    std::set<Minibatch> in_flight;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& action = actions[i];
      const Key key = key_of(action);
      const auto need = [&](bool condition, const char* what) {
        if (!condition) fault({{k, i}}, what);
      };
      const bool f_done = done[ActionKind::forward].count(key) != 0;
      const bool b_done = done[ActionKind::backward].count(key) != 0;
      switch (action.kind) {
        case ActionKind::forward:
          need(!f_done, "this forward is done twice");
          if (lowered_ && !front) {
            need(received[Payload::activations].count(key) != 0,
                 "no receive brings its activations before it");
          }
          open[key] = i;
          in_flight.insert(action.minibatch);
          need(static_cast<int>(in_flight.size()) <= in_flight_,
               format("more than in_flight = %d minibatches stand between F and B", in_flight_)
                   .c_str());
          break;
        case ActionKind::backward:
          need(f_done, "its forward does not stand before it");
          need(!b_done, "this backward is done twice");
          if (lowered_ && !last) {
            need(received[Payload::gradients].count(key) != 0,
                 "no receive brings its gradients before it");
          }
          open.erase(key);
          if (std::none_of(open.begin(), open.end(), [&](const auto& entry) {
                return std::get<0>(entry.first) == action.minibatch;
              })) {
            in_flight.erase(action.minibatch);
          }
          break;
        case ActionKind::receive: {
          const Payload payload = f_done ? Payload::gradients : Payload::activations;
          need(payload == Payload::gradients ? !last : !front, "no stage on that side sends to it");
          need(received[payload].insert(key).second, "this message is received twice");
          break;
        }
        case ActionKind::send: {
          const Payload payload = b_done ? Payload::gradients : Payload::activations;
          need(f_done, "what it sends is not computed before it");
          need(payload == Payload::gradients ? !front : !last, "no stage on that side receives it");
          need(sent[payload].insert(key).second, "this message is sent twice");
          break;
        }
        case ActionKind::update:
          need(b_done, "its backward does not stand before it");
          break;
        case ActionKind::push:
          need(done[ActionKind::update].count(key) != 0, "its update does not stand before it");
          break;
        case ActionKind::pull:
          need(!f_done, "it must stand before its forward");
          break;
        case ActionKind::recompute:
          need(f_done && !b_done, "it must stand between its forward and its backward");
          break;
        case ActionKind::weight_gradient:
          need(b_done, "its backward does not stand before it");
          break;
        case ActionKind::evaluate:
        case ActionKind::checkpoint:
          break;
      }
      done[action.kind].insert(key);
    }
    if (!open.empty()) {
      fault({{k, open.begin()->second}}, "this forward has no backward");
    }
    if (!lowered_) return;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Key key = key_of(actions[i]);
      if (actions[i].kind == ActionKind::forward && !last &&
          sent[Payload::activations].count(key) == 0) {
        fault({{k, i}}, "no send takes its activations on");
      }
      if (actions[i].kind == ActionKind::backward && !front &&
          sent[Payload::gradients].count(key) == 0) {
        fault({{k, i}}, "no send takes its gradients back");
      }
    }
  }

  std::vector<Cell> messages(std::size_t k, ActionKind kind, Payload payload) const {
    std::vector<Cell> cells;
    for (std::size_t i = 0; i < schedule_[k].size(); ++i) {
      if (schedule_[k][i].kind == kind && payload_of(schedule_[k], i) == payload)
        cells.push_back({k, i});
    }
    return cells;
  }

  const Action& at(const Cell& cell) const { return schedule_[cell.stage][cell.index]; }

  void check_same_order(const std::vector<Cell>& sends, const std::vector<Cell>& receives) const {
    for (std::size_t i = 0; i < receives.size(); ++i) {
      if (i >= sends.size()) fault({receives[i]}, "its message is never sent");
      if (key_of(at(sends[i])) == key_of(at(receives[i]))) continue;
      fault({receives[i]},
            format("stage %zu sends %s in this place (messages between two stages are "
                   "received in the order in which they are sent)",
                   sends[i].stage, to_string(at(sends[i])).c_str()));
    }
    if (sends.size() > receives.size())
      fault({sends[receives.size()]}, "its message is never received");
  }

  // Plays the schedule without times: whoever can go on does; if nobody can, it is a deadlock.
  void play() const {
    std::vector<std::size_t> next(schedule_.size(), 0);
    std::vector<std::set<std::pair<ActionKind, Key>>> done(schedule_.size());
    std::vector<std::map<Payload, std::set<Key>>> sent(schedule_.size());
    const auto ready = [&](std::size_t k, std::size_t i) {
      const Action& action = schedule_[k][i];
      const Key key = key_of(action);
      if (action.kind == ActionKind::receive) {
        const Payload payload = payload_of(schedule_[k], i);
        return sent[payload == Payload::activations ? k - 1 : k + 1][payload].count(key) != 0;
      }
      if (!lowered_ && action.kind == ActionKind::forward && k > 0) {
        return done[k - 1].count({ActionKind::forward, key}) != 0;
      }
      if (!lowered_ && action.kind == ActionKind::backward && k + 1 < schedule_.size()) {
        return done[k + 1].count({ActionKind::backward, key}) != 0;
      }
      if (action.kind == ActionKind::pull && k == 0) return own_wave_is_in(action, done);
      return true;
    };
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t k = 0; k < schedule_.size(); ++k) {
        while (next[k] < schedule_[k].size() && ready(k, next[k])) {
          const Action& action = schedule_[k][next[k]];
          done[k].insert({action.kind, key_of(action)});
          if (action.kind == ActionKind::send) {
            sent[k][payload_of(schedule_[k], next[k])].insert(key_of(action));
          }
          ++next[k];
          moved = true;
        }
      }
    }
    std::set<Cell> stuck;
    for (std::size_t k = 0; k < schedule_.size(); ++k) {
      if (next[k] < schedule_[k].size()) stuck.insert({k, next[k]});
    }
    if (!stuck.empty()) fault(stuck, "deadlock: each marked action waits for one that comes later");
  }

  // The gate at D = 0 waits for this virtual worker's own wave as well: every stage that pushes the
  // wave before must have done so.
  bool own_wave_is_in(const Action& pull,
                      const std::vector<std::set<std::pair<ActionKind, Key>>>& done) const {
    Action push = pull;
    push.kind = ActionKind::push;
    push.minibatch -= in_flight_;
    for (std::size_t k = 0; k < schedule_.size(); ++k) {
      const bool pushes =
          std::find(schedule_[k].begin(), schedule_[k].end(), push) != schedule_[k].end();
      if (pushes && done[k].count({ActionKind::push, key_of(push)}) == 0) return false;
    }
    return true;
  }

  const Schedule& schedule_;
  int in_flight_;
  bool lowered_ = false;
};

}  // namespace

void validate(const Schedule& schedule, int in_flight) { ScheduleCheck(schedule, in_flight).run(); }

}  // namespace hetpipe
