// SPDX-License-Identifier: Apache-2.0
// Table estimated-runs: iteration times of GPTs predicted from flops and bytes alone against runs
// measured on A100s, and what fitting the constants of estimates to them gives.
// estimated_runs [--smallest] RAW.json CALIBRATION.csv
#include <cstdio>
#include <functional>
#include <map>

#include "base/text.h"
#include "benchmarks/calibration_fit.h"

namespace hetpipe::bench {
namespace {

using Runs = CalibrationRuns;

std::string summary(const Runs& runs, const std::vector<double>& errors, const char* where) {
  const std::vector<double> chosen = errors_in(runs, errors, where);
  return format("%.1f / %.1f", 100 * mean_of(chosen), 100 * worst_of(chosen));
}

void print_table(const Runs& runs, const std::vector<double>& errors) {
  std::puts(
      "| where | layers x hidden | GPUs | T x D x P | samples | of a micro-batch | measured s | "
      "estimated s | error % |");
  std::puts("|---|---|---|---|---|---|---|---|---|");
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const CalibrationRun& run = runs[r];
    std::printf("| %s | %d x %d | %d | %d x %d x %d | %d | %d | %.5g | %.5g | %+.1f |\n",
                run.where.c_str(), run.layers, run.hidden, run.gpus, run.tensor, run.data,
                run.pipeline, run.global_batch, run.micro_batch, run.iteration_seconds,
                run.iteration_seconds * (1 + errors[r]), 100 * errors[r]);
  }
  std::puts("");
  for (const char* where : kCalibrationGroups) {
    std::printf("|error| on %s, mean / worst: %s %%.\n", where,
                summary(runs, errors, where).c_str());
  }
}

std::vector<double> steps(double from, double step, int count) {
  std::vector<double> values;
  for (int i = 0; i < count; ++i) values.push_back(from + i * step);
  return values;
}

std::string text(const EstimateConstants& constants) {
  return format("%.0f us, %.2f", 1e6 * *constants.launch_latency, *constants.tensor_efficiency);
}

void print_left_out(const Runs& runs) {
  const std::vector<double> latencies = steps(50e-6, 5e-6, 9);
  const std::vector<double> efficiencies = steps(0.65, 0.05, 6);
  const std::vector<Candidate> all = candidates(runs, latencies, efficiencies);
  std::puts("\n### Launch latency and tensor efficiency\n");
  const Candidate& best = fitted(runs, all);
  std::printf(
      "Fitted to all runs: %s; |error| on one node, mean / worst, %s %%, on several %s %%.\n",
      text(best.constants).c_str(), summary(runs, best.errors, "one node").c_str(),
      summary(runs, best.errors, "several nodes").c_str());
  std::map<std::string, int> chosen;
  for (std::size_t r = 0; r < runs.size(); ++r) ++chosen[text(fitted(runs, all, r).constants)];
  std::puts("Fitted to all runs but one:\n");
  std::puts("| fitted | for so many left out |");
  std::puts("|---|---|");
  for (const auto& [constants, times] : chosen) {
    std::printf("| %s | %d |\n", constants.c_str(), times);
  }
  const std::vector<double> left_out = left_out_errors(runs, all);
  std::puts("");
  for (const char* where : kCalibrationGroups) {
    std::printf("Leave-one-out |error| on %s, mean / worst: %s %%.\n", where,
                summary(runs, left_out, where).c_str());
  }
  std::puts("\nMean |error| %, one node / several nodes:\n");
  std::string head = "| us \\ tensor efficiency |";
  std::string line = "\n|---|";
  for (const double efficiency : efficiencies) {
    head += format(" %.2f |", efficiency);
    line += "---|";
  }
  std::fputs((head + line).c_str(), stdout);
  for (std::size_t c = 0; c < all.size(); ++c) {
    if (c % efficiencies.size() == 0) {
      std::printf("\n| %.0f |", 1e6 * latencies[c / efficiencies.size()]);
    }
    std::printf(" %.1f / %.1f |", 100 * mean_of(errors_in(runs, all[c].errors, "one node")),
                100 * mean_of(errors_in(runs, all[c].errors, "several nodes")));
  }
  std::puts("");
}

// What each assumption does to the errors.
void print_parts(const Runs& runs) {
  std::puts("\n### What each part does\n");
  std::puts("Mean / worst |error| %, with one part changed:\n");
  std::puts("| changed | one node | several nodes |");
  std::puts("|---|---|---|");
  const auto with_link = [](Link link) {
    return [link](const CalibrationRun& run) { return calibration_error(run, {}, link); };
  };
  const auto with = [](EstimateConstants constants) {
    return [constants](const CalibrationRun& run) { return calibration_error(run, constants); };
  };
  const auto changed = [](const std::function<void(CalibrationRun&)>& change) {
    return [change](const CalibrationRun& run) {
      CalibrationRun other = run;
      change(other);
      return calibration_error(other);
    };
  };
  const Link link = kNvlink3;
  const std::vector<std::pair<const char*, std::function<double(const CalibrationRun&)>>> rows{
      {"the model", [](const auto& run) { return calibration_error(run); }},
      {"launches of 5 us, as this runtime's", with({kLaunchLatency, {}, {}})},
      {"tensor efficiency 0.7, as of other cards", with({{}, kUsualTensorEfficiency, {}})},
      {"memory efficiency 0.7", with({{}, {}, 0.7})},
      {"memory efficiency 0.9", with({{}, {}, 0.9})},
      {"NVLink at 230 GB/s", with_link({230e9, link.latency, false, link.gather_bandwidth})},
      {"NVLink without latency", with_link({link.bandwidth, 0, false, link.gather_bandwidth})},
      {"NVLink with 10 us", with_link({link.bandwidth, 10e-6, false, link.gather_bandwidth})},
      {"gathering at 12 GB/s", with_link({link.bandwidth, link.latency, false, 12e9})},
      {"gathering at 50 GB/s", with_link({link.bandwidth, link.latency, false, 50e9})},
      {"gathering as fast as NVLink", with_link({link.bandwidth, link.latency, false, 300e9})},
      {"no all-reduces inside groups", changed([](CalibrationRun& run) {
         for (ProfileLayer& layer : run.profile.layers) layer.group_all_reduce_bytes = 0;
       })},
      {"no recompute", changed([](CalibrationRun& run) {
         for (PlanVirtualWorker& worker : run.plan.virtual_workers) {
           for (PlanStage& stage : worker.stages) stage.recompute = false;
         }
       })}};
  for (const auto& [name, error] : rows) {
    const std::vector<double> errors = errors_of(runs, error);
    std::printf("| %s | %s | %s |\n", name, summary(runs, errors, "one node").c_str(),
                summary(runs, errors, "several nodes").c_str());
  }
}

void write_raw(const std::string& path, const Runs& runs, const std::vector<double>& errors) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw UserError(path, "cannot be written. Check the path.");
  std::fputs("[\n", file);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    std::fprintf(file,
                 "  {\"run\": \"%s\", \"measured_seconds\": %.8g, \"estimated_seconds\": %.8g}%s\n",
                 runs[r].name().c_str(), runs[r].iteration_seconds,
                 runs[r].iteration_seconds * (1 + errors[r]), r + 1 < runs.size() ? "," : "");
  }
  std::fputs("]\n", file);
  std::fclose(file);
}

void run(const std::string& raw, const std::string& table, bool table_alone) {
  const Runs runs = load_calibration_runs(table);
  const std::vector<double> errors =
      errors_of(runs, [](const auto& of) { return calibration_error(of); });
  print_table(runs, errors);
  if (!table_alone) {
    print_left_out(runs);
    print_parts(runs);
  }
  write_raw(raw, runs, errors);
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  const bool smallest = argc == 4 && std::string(argv[1]) == "--smallest";
  if (argc != 3 && !smallest) {
    std::fputs("estimated_runs [--smallest] RAW.json CALIBRATION.csv\n", stderr);
    return 2;
  }
  try {
    hetpipe::bench::run(argv[argc - 2], argv[argc - 1], smallest);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
