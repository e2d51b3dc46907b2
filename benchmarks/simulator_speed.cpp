// SPDX-License-Identifier: Apache-2.0
// How many actions per second the simulator plays, on one thread, whether its time grows in
// proportion to their number, and how much memory it takes. An action is one letter of a lowered
// schedule: F, B, W, a send, a receive, an update, a push, a pull.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/smallest.h"
#include "benchmarks/statistics.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe::bench {
namespace {

constexpr double kGoal = 1e6;  // actions/s
constexpr int kLayersPerStage = 4;

struct Shape {
  const char* what;
  int workers, stages, per_node;
  const char* system;
  int micro_batches, in_flight;
  bool server;
};

const Shape kShapes[] = {
    {"hetpipe, 1 virtual worker of 4, one node", 1, 4, 4, "hetpipe", 1, 4, false},
    {"hetpipe, 4 virtual workers of 4 over nodes, servers", 4, 4, 4, "hetpipe", 1, 4, true},
    {"1F1B with flush, 8 stages on 8 nodes", 1, 8, 1, "pipedream-flush", 32, 1, false},
    {"zero bubble, 16 stages, 4 per node", 1, 16, 4, "zero-bubble", 64, 1, false},
    {"1F1B with flush, 32 virtual workers of 8, all-reduce", 32, 8, 8, "pipedream-flush", 32, 1,
     false},
    {"1,024 devices: 1F1B with flush, 128 virtual workers of 8, all-reduce", 128, 8, 8,
     "pipedream-flush", 32, 1, false},
    {"1,024 devices: hetpipe, 128 virtual workers of 8 over nodes, servers", 128, 8, 8, "hetpipe",
     1, 8, true},
};

// Two kinds of devices that alternate, one twice as slow; stage k of every virtual worker stands on
// another node where `server` asks for an equal distribution.
struct Case {
  Cluster cluster;
  Profile profile;
  Plan plan;
};

Case case_of(const Shape& shape) {
  Case c;
  const int devices = shape.workers * shape.stages;
  DeviceKind fast;
  fast.name = "fast";
  fast.memory = 1'000'000'000'000;
  DeviceKind slow = fast;
  slow.name = "slow";
  c.cluster.kinds = {fast, slow};
  for (int n = 0; n < devices / shape.per_node; ++n) {
    Node node{"n" + std::to_string(n), {}};
    for (int i = 0; i < shape.per_node; ++i) node.kinds.push_back((n + i) % 2);
    c.cluster.nodes.push_back(node);
  }
  c.cluster.intra_node = {12e9, 10e-6, false};
  c.cluster.inter_node = {6e9, 5e-6, false};
  const int layers = shape.stages * kLayersPerStage;
  c.profile.model = "chain";
  for (int l = 0; l < layers; ++l) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    if (l > 0) layer.inputs = {l - 1};
    layer.parameter_bytes = 4'000'000;
    c.profile.layers.push_back(layer);
  }
  for (const auto& [kind, seconds] : {std::pair{"fast", 1e-3}, std::pair{"slow", 2e-3}}) {
    Measurement m;
    m.device = kind;
    m.batch = 1;
    m.forward.assign(c.profile.layers.size(), seconds);
    m.backward.assign(c.profile.layers.size(), 2 * seconds);
    m.output_bytes.assign(c.profile.layers.size(), 2'000'000);
    m.stash_bytes.assign(c.profile.layers.size(), 2'000'000);
    c.profile.measurements.push_back(m);
  }
  c.plan.system = shape.system;
  c.plan.model = "chain";
  c.plan.minibatch = c.plan.micro_batches = shape.micro_batches;
  c.plan.in_flight = shape.in_flight;
  for (int w = 0; w < shape.workers; ++w) {
    PlanVirtualWorker worker;
    for (int k = 0; k < shape.stages; ++k) {
      PlanStage stage;
      stage.first_layer = k * kLayersPerStage;
      stage.end_layer = (k + 1) * kLayersPerStage;
      const int device = shape.server ? k * shape.workers + w : w * shape.stages + k;
      stage.devices = {{"n" + std::to_string(device / shape.per_node), device % shape.per_node}};
      worker.stages.push_back(stage);
    }
    c.plan.virtual_workers.push_back(worker);
  }
  if (shape.server) {
    PlanServer server;
    for (const Node& node : c.cluster.nodes) server.nodes.push_back(node.name);
    c.plan.server = server;
  }
  return c;
}

// Of this thread's processor time, which other programs on the machine do not add to.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const Case& c, int minibatches, std::int64_t& actions) {
  SimulationRequest request;
  request.minibatches = minibatches;
  const double start = processor_seconds();
  actions = simulate(c.plan, c.cluster, c.profile, request).actions;
  return processor_seconds() - start;
}

// The most that this process has had in memory since the last call, in bytes.
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  double kilobytes = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) kilobytes = std::atof(line.c_str() + 6);
  }
  std::ofstream("/proc/self/clear_refs") << "5";
  return 1024 * kilobytes;
}

void run(const std::string& raw_path, int rounds, const std::vector<double>& sizes) {
  RawValues raw(raw_path);
  std::printf(
      "The time includes everything that `simulate()` does: costs, schedule, lowering, simulation, "
      "measuring, memory ledger.\nProcessor seconds of its one thread, median and quartiles of %d "
      "rounds. Linear: the time per action over that of the\nsmallest size, all of which fits into "
      "the processor's caches. Bytes: the peak memory per action, where actions fill most\n"
      "of it. The goal is %.0f million actions/s at every size.\n\n",
      rounds, kGoal / 1e6);
  std::printf("| plan | actions | ms | million actions/s | goal met | linear | bytes |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  for (const Shape& shape : kShapes) {
    const Case c = case_of(shape);
    const int least = 2 * shape.in_flight;
    std::int64_t actions = 0;
    seconds_of(c, least, actions);
    const double per_minibatch = static_cast<double>(actions) / least;
    double first = 0;
    for (const double size : sizes) {
      if (size < 0.5 * per_minibatch * least) continue;
      const int minibatches = std::max(least, static_cast<int>(size / per_minibatch));
      std::vector<double> seconds;
      peak_bytes();
      for (int r = 0; r < rounds; ++r) seconds.push_back(seconds_of(c, minibatches, actions));
      const double bytes = peak_bytes() / static_cast<double>(actions);
      raw.add(std::string(shape.what) + ", " + std::to_string(actions) + " actions", seconds);
      const Spread spread = spread_of(seconds);
      const double each = spread.median / static_cast<double>(actions);
      if (first == 0) first = each;
      const std::string shown = size < 1e6 ? "" : std::to_string(std::lround(bytes));
      std::printf("| %s | %lld | %s | %.2f | %s | %.2f | %s |\n", shape.what,
                  static_cast<long long>(actions), to_string(spread, "%.2f", 1e3).c_str(),
                  1e-6 / each, 1 / each >= kGoal ? "yes" : "no", each / first, shown.c_str());
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  std::vector<double> sizes{1e4, 1e5, 1e6, 1e7};  // actions
  if (hetpipe::bench::take_smallest(argc, argv)) sizes.resize(1);
  if (argc != 3) {
    std::fprintf(stderr, "usage: bench_simulator_speed [--smallest] RAW.json ROUNDS\n");
    return 2;
  }
  hetpipe::bench::run(argv[1], std::atoi(argv[2]), sizes);
  return 0;
}
