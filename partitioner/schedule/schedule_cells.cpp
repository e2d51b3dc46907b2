// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/schedule_cells.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

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

}  // namespace

void fault_at(const Schedule& schedule, const std::set<Cell>& cells, const std::string& what) {
  const Cell& at = *cells.begin();
  throw UserError("schedule", format("stage %zu, action %zu (%s): ", at.stage, at.index,
                                     to_string(schedule[at.stage][at.index]).c_str()) +
                                  what + ". Correct the order." + table(schedule, cells));
}

}  // namespace hetpipe
