// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// Training runs measured on real clusters: a folder with measured.csv and, for each of its rows, a
// folder with cluster.toml, profile.toml and plan.toml. Shared by the table and the test.
namespace hetpipe::bench {

struct MeasuredRun {
  std::string name;
  Cluster cluster;
  Profile profile;
  Plan plan;
  double iteration_seconds = 0;
  std::int64_t peak_memory = 0;  // bytes, of the fullest GPU

  // "mit", "clariden": the cluster it was measured on.
  std::string group() const { return name.substr(0, name.find('_')); }
  // Whether its iteration time counts in the means. One records 1.06 s of synchronisation in 1.24 s
  // although its micro-batches alone need 1.01 s: that is another run's time.
  bool calibrates() const { return name != "clariden_OPT-350_N4_D4"; }
};

// Columns: case, iteration_seconds, gradient_sync_seconds, peak_memory_bytes, note.
inline std::vector<MeasuredRun> load_measured_runs(const std::filesystem::path& folder) {
  const std::filesystem::path table = folder / "measured.csv";
  std::ifstream file(table);
  if (!file) throw UserError(table.string(), "cannot be read (no such file). Name their folder.");
  std::vector<MeasuredRun> runs;
  std::string line;
  std::getline(file, line);  // names of the columns
  while (std::getline(file, line)) {
    std::vector<std::string> cells;
    for (std::size_t from = 0; from <= line.size();) {
      const std::size_t to = std::min(line.find(',', from), line.size());
      cells.push_back(line.substr(from, to - from));
      from = to + 1;
    }
    if (cells.size() < 4) {
      throw UserError(table.string(), "'" + line + "' (fewer than 4 cells). Correct the row.");
    }
    const std::filesystem::path here = folder / cells[0];
    runs.push_back({cells[0], load_cluster(here / "cluster.toml"),
                    load_profile(here / "profile.toml"), load_plan(here / "plan.toml"),
                    std::stod(cells[1]), std::stoll(cells[3])});
  }
  return runs;
}

// Relative errors.
inline double mean_of(const std::vector<double>& errors) {
  double sum = 0;
  for (const double e : errors) sum += std::abs(e);
  return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
}
inline double worst_of(const std::vector<double>& errors) {
  double worst = 0;
  for (const double e : errors) worst = std::max(worst, std::abs(e));
  return worst;
}

}  // namespace hetpipe::bench
