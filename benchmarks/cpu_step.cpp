// SPDX-License-Identifier: Apache-2.0
// Table cpu-step: a training step of the zoo's convolutional networks against PyTorch on the same
// cores. cpu_step [--smallest] RAW.json PEER...: PEER is started with what peer_command() adds.
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "benchmarks/smallest.h"
#include "benchmarks/statistics.h"
#include "benchmarks/step_table.h"

namespace hetpipe::bench {
namespace {

constexpr double kGoal = 0.9;

struct Extent {
  std::vector<StepSetting> settings;
  int pairs = 15;
  double turn_seconds = 0.5;
};

Extent whole() {
  const Shape small{28, 28, 1}, colour{32, 32, 3};
  Extent extent;
  for (const auto& [model, sample] :
       {std::pair{"lenet", small}, std::pair{"resnet-8", colour}, std::pair{"resnet-20", colour}}) {
    for (int threads : {1, 2}) {
      for (int batch : {64, 128}) {
        extent.settings.push_back(
            {.model = model, .sample = sample, .batch = batch, .threads = threads});
      }
    }
  }
  return extent;
}

Extent smallest() {
  return {.settings = {{.model = "lenet", .sample = {28, 28, 1}, .batch = 4}},
          .pairs = 1,
          .turn_seconds = 0};
}

std::string name_of(const StepSetting& s) {
  return format("%s, batch %d, %d thread%s", s.model.c_str(), s.batch, s.threads,
                s.threads == 1 ? "" : "s");
}

// One row; true when the goal was met.
bool compare(const StepSetting& s, const Extent& extent, const std::vector<std::string>& command,
             RawValues& raw) {
  TrainingStep step(s);
  Peer peer(peer_command(command, s));
  check_ready(peer, step.model());
  // Warm: kernels are made, memory is touched, allocators have what they need.
  seconds_of(step, 5);
  seconds_of(peer, 5);
  const auto [ours, theirs] = in_turns(step, peer, extent.pairs, extent.turn_seconds);
  ensure(std::isfinite(step.loss()), "training diverged");
  const Spread ratio = spread_of(ratios(ours, theirs));
  std::printf("| %s | %s | %s | %s | %s |\n", name_of(s).c_str(),
              to_string(spread_of(ours), "%.2f", 1e3).c_str(),
              to_string(spread_of(theirs), "%.2f", 1e3).c_str(), to_string(ratio, "%.3f").c_str(),
              ratio.median <= kGoal ? "yes" : "no");
  std::fflush(stdout);
  raw.add(name_of(s) + ", hetpipe, s", ours);
  raw.add(name_of(s) + ", PyTorch, s", theirs);
  return ratio.median <= kGoal;
}

void run(const Extent& extent, const std::string& raw_path,
         const std::vector<std::string>& command) {
  const std::vector<StepSetting>& settings = extent.settings;
  RawValues raw(raw_path);
  std::printf(
      "Time of a training step (forward, backward, update), in ms: median and "
      "quartiles of %d turns of %.1f s, the two sides in turns. The ratio is the median of "
      "the pairs; the goal is at most %.2f.\n\n",
      extent.pairs, extent.turn_seconds, kGoal);
  std::printf("| network | hetpipe ms | PyTorch ms | hetpipe / PyTorch | goal met |\n");
  std::printf("|---|---|---|---|---|\n");
  int met = 0;
  for (const StepSetting& s : settings) met += compare(s, extent, command, raw);
  std::printf("\n%d of %zu rows meet the goal.\n", met, settings.size());
  for (const StepSetting& s : settings) {
    if (s.batch == settings.front().batch && s.threads == 1)
      print_where_a_step_goes(s, name_of(s), peer_command(command, s));
  }
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  using namespace hetpipe;
  const bench::Extent extent =
      bench::take_smallest(argc, argv) ? bench::smallest() : bench::whole();
  if (argc < 3) {
    std::fprintf(stderr, "usage: cpu_step [--smallest] RAW.json PEER...\n");
    return 2;
  }
  try {
    bench::run(extent, argv[1], {argv + 2, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cpu_step: %s\n", error.what());
    return 3;
  }
  return 0;
}
