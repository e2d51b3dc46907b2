// SPDX-License-Identifier: Apache-2.0
// PipeDream's optimization of one profile, from file to cut, as pipedream_published.py compares it.
//   bench_pipedream_optimizer GRAPH.TXT DEVICES BANDWIDTH [DEVICES BANDWIDTH]...
// with the innermost level first; prints the objective, the time and the CPU time, all in seconds.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "base/error.h"
#include "partitioner/planners/pipedream_cut.h"
#include "partitioner/planners/replicated.h"

namespace hetpipe::bench {
namespace {

constexpr int kBatch = 64;  // graph.txt does not say; times are taken as they stand

PipedreamCut optimize(const char* file, const PipedreamRequest& request) {
  const Profile profile = load_profile(file, ProfileOrigin{"v100", kBatch});
  DeviceKind kind;
  kind.name = "v100";
  const LayerCosts costs = costs_on(profile, kind, kBatch);
  const PlacedLayers placed = placed_layers(profile);
  std::vector<LayerLoad> loads;
  for (int p = 0; p < placed.size(); ++p) {
    const auto at = static_cast<std::size_t>(p);
    const auto l = static_cast<std::size_t>(placed.layers[at]);
    loads.push_back({placed.inputs[at], costs.forward[l] + costs.backward[l],
                     static_cast<double>(profile.layers[l].parameter_bytes),
                     static_cast<double>(costs.output_bytes[l])});
  }
  return pipedream_cut(antichain_states(loads), request);
}

int run(int count, char** arguments) {
  if (count < 4 || count % 2 != 0) {
    std::fputs("bench_pipedream_optimizer GRAPH.TXT DEVICES BANDWIDTH [DEVICES BANDWIDTH]...\n",
               stderr);
    return 2;
  }
  PipedreamRequest request;
  for (int i = 2; i < count; i += 2) {
    request.levels.push_back({std::atoi(arguments[i]), std::atof(arguments[i + 1])});
  }
  optimize(arguments[1], request);  // warm, as the other side's process is
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t worked = std::clock();
  const PipedreamCut cut = optimize(arguments[1], request);
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::printf("%.17g %.9f %.6f\n", cut.seconds, time.count(),
              static_cast<double>(std::clock() - worked) / CLOCKS_PER_SEC);
  return 0;
}

}  // namespace
}  // namespace hetpipe::bench

int main(int count, char** arguments) {
  try {
    return hetpipe::bench::run(count, arguments);
  } catch (const hetpipe::UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
