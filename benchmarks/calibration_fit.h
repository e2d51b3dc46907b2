// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/calibration_runs.h"
#include "benchmarks/measured_runs.h"

// Fitting the constants of estimates to measured runs, leaving one run out at a time: launch
// latency and tensor efficiency on a grid, all else as it is. Shared by the table and the test.
namespace hetpipe::bench {

using CalibrationRuns = std::vector<CalibrationRun>;

inline constexpr const char* kCalibrationGroups[] = {"one node", "several nodes"};

// Of the errors of all runs those of one group, without one run.
inline std::vector<double> errors_in(const CalibrationRuns& runs, const std::vector<double>& errors,
                                     const std::string& where,
                                     std::optional<std::size_t> without = std::nullopt) {
  std::vector<double> chosen;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    if (runs[r].where == where && r != without) chosen.push_back(errors[r]);
  }
  return chosen;
}

inline std::vector<double> errors_of(const CalibrationRuns& runs,
                                     const std::function<double(const CalibrationRun&)>& error) {
  std::vector<double> errors;
  for (const CalibrationRun& run : runs) errors.push_back(error(run));
  return errors;
}

struct Candidate {
  EstimateConstants constants = {};
  std::vector<double> errors = {};  // [run]
};

inline std::vector<Candidate> candidates(const CalibrationRuns& runs,
                                         const std::vector<double>& launch_latencies,
                                         const std::vector<double>& tensor_efficiencies) {
  std::vector<Candidate> all;
  for (const double latency : launch_latencies) {
    for (const double efficiency : tensor_efficiencies) {
      const EstimateConstants constants{latency, efficiency, {}};
      all.push_back({constants, errors_of(runs, [&](const CalibrationRun& run) {
                       return calibration_error(run, constants);
                     })});
    }
  }
  return all;
}

// The one with the least mean |error|, both groups counting alike; `without` one run.
inline const Candidate& fitted(const CalibrationRuns& runs, const std::vector<Candidate>& all,
                               std::optional<std::size_t> without = std::nullopt) {
  const auto loss = [&](const Candidate& of) {
    double sum = 0;
    for (const char* where : kCalibrationGroups) {
      sum += mean_of(errors_in(runs, of.errors, where, without));
    }
    return sum;
  };
  const Candidate* best = &all.front();
  for (const Candidate& one : all) {
    if (loss(one) < loss(*best)) best = &one;
  }
  return *best;
}

// Of each run with the constants fitted to all others.
inline std::vector<double> left_out_errors(const CalibrationRuns& runs,
                                           const std::vector<Candidate>& all) {
  std::vector<double> errors;
  for (std::size_t r = 0; r < runs.size(); ++r) errors.push_back(fitted(runs, all, r).errors[r]);
  return errors;
}

}  // namespace hetpipe::bench
