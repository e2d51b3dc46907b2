// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/plan_table.h"
#include "partitioner/plan/plan_table_parts.h"

namespace hetpipe {
namespace {

StageNeed need_of(const Plan& plan, const Cluster& cluster, const Profile& profile, std::size_t vw,
                  std::size_t k) {
  return fullest_replica(plan, cluster, profile, VirtualWorkerId{static_cast<int>(vw)},
                         StageId{static_cast<int>(k)});
}

}  // namespace

std::string memory_table(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  check_plan(plan, "plan", &cluster, static_cast<int>(profile.layers.size()));
  // Stages with the same lines on as much memory share a row.
  struct Row {
    MemoryLedger ledger;
    std::int64_t available = 0;
    std::vector<DeviceName> devices;
  };
  std::vector<Row> rows;
  std::vector<std::string> names;  // of lines, in the order of their first appearance
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      const PlanStage& stage = plan.virtual_workers[vw].stages[k];
      const StageNeed need = need_of(plan, cluster, profile, vw, k);
      Row row{need.ledger, need.memory, stage.devices};
      for (const LedgerLine& line : row.ledger.lines) {
        if (std::find(names.begin(), names.end(), line.name) == names.end()) {
          names.push_back(line.name);
        }
      }
      const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& other) {
        return other.available == row.available && other.ledger == row.ledger;
      });
      if (same == rows.end()) {
        rows.push_back(std::move(row));
      } else {
        same->devices.insert(same->devices.end(), row.devices.begin(), row.devices.end());
      }
    }
  }
  std::vector<std::string> header{"memory of"};
  header.insert(header.end(), names.begin(), names.end());
  for (const char* name : {"total", "of", "full"}) header.emplace_back(name);
  Table table(header);
  for (const Row& row : rows) {
    std::vector<std::string> cells{device_names(row.devices)};
    for (const std::string& name : names) {
      std::int64_t bytes = 0;
      for (const LedgerLine& line : row.ledger.lines) bytes += line.name == name ? line.bytes : 0;
      cells.push_back(bytes > 0 ? format_bytes(static_cast<double>(bytes)) : "-");
    }
    const auto total = static_cast<double>(row.ledger.total());
    const auto available = static_cast<double>(row.available);
    cells.push_back(format_bytes(total));
    cells.push_back(format_bytes(available));
    cells.push_back(format("%.0f %%", 100 * total / available));
    table.add(cells);
  }
  return table.text();
}

std::string ledger_table(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  check_plan(plan, "plan", &cluster, static_cast<int>(profile.layers.size()));
  std::string text;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      const PlanStage& stage = plan.virtual_workers[vw].stages[k];
      const StageNeed need = need_of(plan, cluster, profile, vw, k);
      const MemoryLedger& ledger = need.ledger;
      const auto available = static_cast<double>(need.memory);
      Table table({"", "bytes"});
      for (const LedgerLine& line : ledger.lines) {
        table.add({line.name, format_bytes(static_cast<double>(line.bytes))});
      }
      table.add({"total", format_bytes(static_cast<double>(ledger.total()))});
      text += format("virtual worker %zu, stage %zu on %s: %.0f %% of %s\n", vw, k,
                     device_names(stage.devices).c_str(),
                     100 * static_cast<double>(ledger.total()) / available,
                     format_bytes(available).c_str());
      text += table.text("  ");
    }
  }
  return text;
}

}  // namespace hetpipe
