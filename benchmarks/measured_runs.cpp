// SPDX-License-Identifier: Apache-2.0
// Table measured-runs: iteration time and memory predicted by the simulator against runs measured
// on real clusters. measured_runs RAW.json FOLDER
#include "benchmarks/measured_runs.h"

#include <cstdio>
#include <functional>

#include "base/text.h"
#include "partitioner/cost/megatron_ledger.h"
#include "partitioner/simulator/megatron.h"

namespace hetpipe::bench {
namespace {

double seconds_of(const MeasuredRun& run, const MegatronConstants& constants = {}) {
  return simulate_megatron(run.plan, run.cluster, run.profile, {}, constants).iteration_seconds;
}

std::int64_t memory_of(const MeasuredRun& run, std::int64_t process_bytes = kMegatronProcessBytes) {
  std::int64_t most = 0;
  for (std::size_t vw = 0; vw < run.plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < run.plan.virtual_workers[vw].stages.size(); ++k) {
      const MemoryLedger ledger = megatron_stage_ledger(
          run.plan, run.cluster, run.profile, VirtualWorkerId{static_cast<int>(vw)},
          StageId{static_cast<int>(k)}, process_bytes);
      most = std::max(most, ledger.total());
    }
  }
  return most;
}

double time_error(const MeasuredRun& run, const MegatronConstants& constants = {}) {
  return seconds_of(run, constants) / run.iteration_seconds - 1;
}
double memory_error(const MeasuredRun& run, std::int64_t process_bytes = kMegatronProcessBytes) {
  return static_cast<double>(memory_of(run, process_bytes)) / static_cast<double>(run.peak_memory) -
         1;
}

using Runs = std::vector<MeasuredRun>;
using Errors = std::function<double(const MeasuredRun&)>;

// `calibrating`: of those runs alone whose time counts.
enum class Of { all, calibrating };

std::string summary(const Runs& runs, const std::string& group, const Errors& error,
                    Of of = Of::calibrating) {
  std::vector<double> errors;
  for (const MeasuredRun& run : runs) {
    if (run.group() == group && (of == Of::all || run.calibrates())) errors.push_back(error(run));
  }
  return format("%.2f / %.2f", 100 * mean_of(errors), 100 * worst_of(errors));
}

void print_table(const Runs& runs) {
  std::puts("| run | measured s | simulated s | error % | measured GB | ledger GB | error % |");
  std::puts("|---|---|---|---|---|---|---|");
  for (const MeasuredRun& run : runs) {
    // What was recorded as mit's memory is less than the tensors that the profile counts.
    const bool memory = run.group() != "mit";
    std::printf("| %s | %.5g | %.5g | %+.2f | %s | %.2f | %s |\n", run.name.c_str(),
                run.iteration_seconds, seconds_of(run), 100 * time_error(run),
                memory ? format("%.2f", static_cast<double>(run.peak_memory) / 1e9).c_str() : "–",
                static_cast<double>(memory_of(run)) / 1e9,
                memory ? format("%+.2f", 100 * memory_error(run)).c_str() : "–");
  }
  std::puts("");
  std::printf(
      "|error| of iteration time, mean / worst: mit %s %%, clariden %s %% (without N4_D4).\n",
      summary(runs, "mit", [](const auto& r) { return time_error(r); }).c_str(),
      summary(runs, "clariden", [](const auto& r) { return time_error(r); }).c_str());
  std::printf("|error| of peak memory, mean / worst: clariden %s %%.\n",
              summary(
                  runs, "clariden", [](const auto& r) { return memory_error(r); }, Of::all)
                  .c_str());
}

// The value among `candidates` with the least mean |error| over the runs but `left_out` (the middle
// one, where several are equally good).
double fitted(const Runs& runs, const std::string& left_out, const std::vector<double>& candidates,
              const std::function<double(const MeasuredRun&, double)>& error) {
  std::vector<double> best;
  double least = 0;
  for (const double candidate : candidates) {
    std::vector<double> errors;
    for (const MeasuredRun& run : runs) {
      if (run.name != left_out) errors.push_back(error(run, candidate));
    }
    const double mean = mean_of(errors);
    if (best.empty() || mean < least - 1e-12) {
      best = {candidate};
      least = mean;
    } else if (mean <= least + 1e-12) {
      best.push_back(candidate);
    }
  }
  return best[best.size() / 2];
}

void print_left_out(const Runs& all, const std::string& group, const std::string& constant,
                    const char* unit, double scale, double used,
                    const std::vector<double>& candidates,
                    const std::function<double(const MeasuredRun&, double)>& error) {
  Runs runs;
  for (const MeasuredRun& run : all) {
    if (run.group() == group) runs.push_back(run);
  }
  std::printf("\n### %s: %.4g %s, not fitted\n\n", constant.c_str(), used / scale, unit);
  std::printf("Fitted to all %s runs it would be %.4g %s. Fitted to all but one:\n\n",
              group.c_str(), fitted(runs, "", candidates, error) / scale, unit);
  std::printf(
      "| left out | fitted %s | its error %% with that | its error %% with the constant |\n", unit);
  std::puts("|---|---|---|---|");
  std::vector<double> errors;
  for (const MeasuredRun& run : runs) {
    const double value = fitted(runs, run.name, candidates, error);
    errors.push_back(error(run, value));
    std::printf("| %s | %.4g | %+.2f | %+.2f |\n", run.name.c_str(), value / scale,
                100 * errors.back(), 100 * error(run, used));
  }
  std::printf("\nLeave-one-out |error|, mean / worst: %.2f / %.2f %%.\n", 100 * mean_of(errors),
              100 * worst_of(errors));
}

// What each part of the model does to the errors.
void print_parts(const Runs& runs) {
  const auto without = [](const std::function<void(MeasuredRun&)>& change) {
    return [change](const MeasuredRun& run) {
      MeasuredRun changed = run;
      change(changed);
      return time_error(changed);
    };
  };
  const std::vector<std::pair<const char*, Errors>> rows{
      {"the model", [](const auto& r) { return time_error(r); }},
      {"sends that never block", [](const auto& r) { return time_error(r, {1e18}); }},
      {"sends that block to the last byte", [](const auto& r) { return time_error(r, {0}); }},
      {"no gathering within the node",
       without([](MeasuredRun& r) { r.cluster.intra_node.gather_bandwidth = 1e30; })},
      {"no all-reduce of tied weights",  // a layer that shares its own is always in its stage
       without([](MeasuredRun& r) { r.profile.layers[1].shares = r.profile.layers[1].name; })}};
  std::puts("\n### What each part does\n");
  std::puts("Mean / worst |error| of iteration time, %, with one part changed:\n");
  std::puts("| changed | mit | clariden |");
  std::puts("|---|---|---|");
  for (const auto& [name, error] : rows) {
    std::printf("| %s | %s | %s |\n", name, summary(runs, "mit", error).c_str(),
                summary(runs, "clariden", error).c_str());
  }
}

void write_raw(const std::string& path, const Runs& runs) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) throw UserError(path, "cannot be written. Check the path.");
  std::fputs("[\n", file);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::fprintf(file,
                 "  {\"run\": \"%s\", \"measured_seconds\": %.8g, \"simulated_seconds\": %.8g, "
                 "\"measured_bytes\": %lld, \"ledger_bytes\": %lld}%s\n",
                 runs[i].name.c_str(), runs[i].iteration_seconds, seconds_of(runs[i]),
                 static_cast<long long>(runs[i].peak_memory),
                 static_cast<long long>(memory_of(runs[i])), i + 1 < runs.size() ? "," : "");
  }
  std::fputs("]\n", file);
  std::fclose(file);
}

void run(const std::string& raw, const std::string& folder) {
  const Runs runs = load_measured_runs(folder);
  print_table(runs);
  std::vector<double> buffers;
  for (int i = 0; i <= 64; ++i) buffers.push_back(65536.0 * i);
  print_left_out(runs, "mit", "Send buffer of each GPU", "MB", 1e6,
                 MegatronConstants{}.send_buffer_bytes, buffers,
                 [](const MeasuredRun& r, double bytes) { return time_error(r, {bytes}); });
  std::vector<double> processes;
  for (int i = 0; i <= 1000; ++i) processes.push_back(1e7 * i);
  print_left_out(runs, "clariden", "Memory of the process", "GB", 1e9,
                 static_cast<double>(kMegatronProcessBytes), processes,
                 [](const MeasuredRun& r, double bytes) {
                   return memory_error(r, static_cast<std::int64_t>(bytes));
                 });
  print_parts(runs);
  write_raw(raw, runs);
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("measured_runs RAW.json FOLDER\n", stderr);
    return 2;
  }
  try {
    hetpipe::bench::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
