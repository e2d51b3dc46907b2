// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/timetable.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/schedule/virtual_stages.h"

namespace hetpipe {
namespace {

bool computes(const Action& action) {
  return action.kind == ActionKind::forward || action.kind == ActionKind::backward ||
         action.kind == ActionKind::weight_gradient || action.kind == ActionKind::recompute;
}

// When each F and each B of each virtual stage was done.
class Ends {
 public:
  explicit Ends(const Schedule& schedule) : stages_(schedule) {
    std::optional<Minibatch> last;
    for (const StageActions& actions : schedule) {
      for (const Action& action : actions) {
        first_ = last ? std::min(first_, action.minibatch) : action.minibatch;
        last = last ? std::max(*last, action.minibatch) : action.minibatch;
        micro_batches_ = std::max(micro_batches_, action.micro + 1);
      }
    }
    const auto passes =
        last ? static_cast<std::size_t>(*last - first_ + 1) * std::size_t(micro_batches_) : 0;
    ends_.assign(2 * passes * static_cast<std::size_t>(stages_.count()), kNever);
  }

  const VirtualStages& stages() const { return stages_; }
  // Of the same pass of the same micro-batch at another virtual stage; kNever: not yet.
  double& of(const Action& action, int virtual_stage) {
    const auto pass =
        static_cast<std::size_t>(action.minibatch - first_) * std::size_t(micro_batches_) +
        static_cast<std::size_t>(action.micro);
    const std::size_t at =
        pass * static_cast<std::size_t>(stages_.count()) + static_cast<std::size_t>(virtual_stage);
    return ends_[2 * at + (action.kind == ActionKind::backward ? 1 : 0)];
  }

  static constexpr double kNever = -1;

 private:
  VirtualStages stages_;
  Minibatch first_ = 0;
  int micro_batches_ = 1;
  std::vector<double> ends_;
};

double length_of(const Action& action, const SlotLengths& lengths) {
  switch (action.kind) {
    case ActionKind::forward:
      return lengths.forward;
    case ActionKind::backward:
      return lengths.backward;
    case ActionKind::weight_gradient:
      return lengths.weight_gradient;
    case ActionKind::recompute:
      return lengths.recompute;
    default:
      return 0;
  }
}

class Play {
 public:
  Play(const Schedule& schedule, const SlotLengths& lengths)
      : schedule_(schedule), lengths_(lengths), ends_(schedule) {
    table_.start.resize(schedule.size());
    table_.end.resize(schedule.size());
  }

  Timetable run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t k = 0; k < schedule_.size(); ++k) {
        while (table_.end[k].size() < schedule_[k].size() && step(k)) moved = true;
      }
    }
    for (const auto& ends : table_.end) {
      if (!ends.empty()) table_.length = std::max(table_.length, ends.back());
    }
    return std::move(table_);
  }

 private:
  bool step(std::size_t k) {
    const Action& action = schedule_[k][table_.end[k].size()];
    double start = table_.end[k].empty() ? 0 : table_.end[k].back();
    const int here = ends_.stages().of(static_cast<int>(k), action.chunk);
    const bool forward = action.kind == ActionKind::forward;
    const bool passes = forward || action.kind == ActionKind::backward;
    const int needed = forward ? here - 1 : here + 1;
    if (passes && needed >= 0 && needed < ends_.stages().count()) {
      const double end = ends_.of(action, needed);
      if (end == Ends::kNever) return false;
      start = std::max(start, end + lengths_.message);
    }
    const double end = start + length_of(action, lengths_);
    if (passes) ends_.of(action, here) = end;
    table_.start[k].push_back(start);
    table_.end[k].push_back(end);
    return true;
  }

  const Schedule& schedule_;
  const SlotLengths& lengths_;
  Ends ends_;
  Timetable table_;
};

}  // namespace

Timetable play_in_slots(const Schedule& schedule, const SlotLengths& lengths) {
  return Play(schedule, lengths).run();
}

std::string draw(const Schedule& schedule) {
  const Timetable table = play_in_slots(schedule);
  const auto slots = static_cast<std::size_t>(table.length);
  std::size_t width = 1;
  std::vector<std::vector<std::string>> cells(schedule.size(),
                                              std::vector<std::string>(slots, "."));
  for (std::size_t k = 0; k < schedule.size(); ++k) {
    for (std::size_t i = 0; i < table.start[k].size(); ++i) {
      if (!computes(schedule[k][i])) continue;
      std::string& cell = cells[k][static_cast<std::size_t>(table.start[k][i])];
      cell = to_string(schedule[k][i]);
      width = std::max(width, cell.size());
    }
  }
  const std::size_t digits = std::to_string(schedule.empty() ? 0 : schedule.size() - 1).size();
  std::string text;
  for (std::size_t k = 0; k < schedule.size(); ++k) {
    std::string line = format("stage %*zu:", static_cast<int>(digits), k);
    for (const std::string& cell : cells[k]) {
      line += ' ' + cell + std::string(width - cell.size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

}  // namespace hetpipe
