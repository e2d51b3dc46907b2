// SPDX-License-Identifier: Apache-2.0
// How long planning takes, on one thread: HetPipe's partitioner on random large networks, and the
// search on whole pools. planner_speed [--smallest] RAW.json ROUNDS CONFIGS TIED.toml [POOL],
// where TIED.toml is the profile of a model with tied weights.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "benchmarks/smallest.h"
#include "benchmarks/statistics.h"
#include "partitioner/planners/partition.h"
#include "partitioner/planners/search.h"
#include "partitioner/profile/estimate.h"

namespace hetpipe::bench {
namespace {

std::size_t at_index(int i) { return static_cast<std::size_t>(i); }

struct Seconds {
  double wall = 0;
  double cpu = 0;  // of this thread: what the wall would show on a machine without others
};

Seconds seconds_of(const std::function<void()>& work) {
  const auto cpu = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const auto start = std::chrono::steady_clock::now();
  const double cpu_start = cpu();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          cpu() - cpu_start};
}

// --- The partitioner -----------------------------------------------------------------------------

constexpr int kLayers = 500;
constexpr int kDevices = 4;
constexpr double kPartitionGoal = 50e-3;  // s

struct PartitionCase {
  Cluster cluster;
  Profile profile;
  PartitionRequest request;
};

enum class Network { chain, residual, dense_blocks, u_net, tied };

// What a layer reads beside the one before it.
std::vector<int> skips_to(Network network, int layer, std::mt19937& random) {
  std::vector<int> inputs;
  switch (network) {
    case Network::chain:
    case Network::tied:  // the last layer has the first one's parameters
      break;
    case Network::residual:  // blocks of eight layers, as ResNet-152's are
      if (layer % 8 == 7) inputs = {layer - 7};
      break;
    case Network::dense_blocks:  // every layer reads a few of its block of twelve
      for (int from = layer / 12 * 12; from + 1 < layer; ++from) {
        if (random() % 3 == 0) inputs.push_back(from);
      }
      break;
    case Network::u_net:  // each level's encoder to the decoder of the same level, every 25 layers
      if (layer > kLayers / 2 && layer % 25 == 0) inputs = {kLayers - layer};
      break;
  }
  return inputs;
}

// Four devices of up to four kinds on one to four nodes; times and sizes of layers that differ by a
// factor of ten, memory from tight to roomy.
PartitionCase random_case(Network network, std::mt19937& random) {
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const auto share = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  PartitionCase c;
  const int kinds = integer(1, kDevices);
  std::vector<double> speed;
  for (int k = 0; k < kinds; ++k) {
    DeviceKind kind;
    kind.name = "kind" + std::to_string(k);
    c.cluster.kinds.push_back(kind);
    speed.push_back(share(0.3, 1));
  }
  const int nodes = integer(1, kDevices);
  for (int n = 0; n < nodes; ++n) c.cluster.nodes.push_back({"n" + std::to_string(n), {}});
  for (int d = 0; d < kDevices; ++d) {
    c.cluster.nodes[at_index(d % nodes)].kinds.push_back(integer(0, kinds - 1));
  }
  c.cluster.intra_node = {12e9, 10e-6, false};
  c.cluster.inter_node = {share(0.1e9, 6e9), 50e-6, false};
  std::vector<double> seconds;
  std::vector<std::int64_t> output;
  double bytes = 0;
  c.request.in_flight = integer(1, 6);
  for (int l = 0; l < kLayers; ++l) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    layer.inputs = skips_to(network, l, random);
    if (l > 0) layer.inputs.push_back(l - 1);
    std::sort(layer.inputs.begin(), layer.inputs.end());
    layer.parameter_bytes = integer(0, 2'000'000);
    if (network == Network::tied && l + 1 == kLayers) {
      layer.shares = c.profile.layers.front().name;
      layer.parameter_bytes = c.profile.layers.front().parameter_bytes;
    }
    c.profile.layers.push_back(layer);
    seconds.push_back(share(0.1e-3, 1e-3));
    output.push_back(integer(1'000'000, 10'000'000));
    bytes += 10 * static_cast<double>(layer.parameter_bytes) +
             (1 + c.request.in_flight) * static_cast<double>(output.back());
  }
  for (int k = 0; k < kinds; ++k) {
    Measurement m;
    m.device = c.cluster.kinds[at_index(k)].name;
    m.batch = 32;
    for (const double s : seconds) {
      m.forward.push_back(s / speed[at_index(k)] * share(0.8, 1.2));
      m.backward.push_back(2 * m.forward.back());
    }
    m.output_bytes = m.stash_bytes = output;
    c.profile.measurements.push_back(m);
    c.cluster.kinds[at_index(k)].memory =
        static_cast<std::int64_t>(bytes / kDevices * share(0.8, 4));
  }
  c.request.devices = c.cluster.devices();
  c.request.minibatch = 32;
  return c;
}

void measure_partitions(RawValues& raw, int cases) {
  std::printf(
      "HetPipe's partition of %d layers for %d devices: %d random cases of each kind of network "
      "(kinds, nodes, links, times, memory), milliseconds. The goal is %.0f ms for the worst.\n\n",
      kLayers, kDevices, cases, 1e3 * kPartitionGoal);
  std::puts(
      "| network | median (quartiles) | worst | worst, CPU | cases that fit | exact | goal |");
  std::puts("|---|---|---|---|---|---|---|");
  const std::pair<const char*, Network> networks[] = {{"chain", Network::chain},
                                                      {"residual", Network::residual},
                                                      {"dense blocks", Network::dense_blocks},
                                                      {"U-net", Network::u_net},
                                                      {"chain, tied", Network::tied}};
  for (const auto& [name, network] : networks) {
    std::mt19937 random(20261121);
    std::vector<double> wall, cpu;
    int fit = 0, exact = 0;
    for (int i = 0; i < cases; ++i) {
      const PartitionCase c = random_case(network, random);
      const Seconds seconds = seconds_of([&] {
        try {
          exact += partition(c.cluster, c.profile, c.request).exact;
          ++fit;
        } catch (const UserError&) {
          // Memory is too small: finding that out is in the time as well.
        }
      });
      wall.push_back(seconds.wall);
      cpu.push_back(seconds.cpu);
    }
    raw.add(std::string("partition, ") + name + ", s", wall);
    raw.add(std::string("partition, ") + name + ", CPU s", cpu);
    const Spread spread = spread_of(wall);
    const double worst = spread_of(cpu).most;
    std::printf("| %s | %s | %.1f | %.1f | %d | %d | %s |\n", name,
                to_string(spread, "%.2f", 1e3).c_str(), 1e3 * spread.most, 1e3 * worst, fit, exact,
                spread.most < kPartitionGoal ? "yes" : "no");
    std::fflush(stdout);
  }
}

// --- The search ----------------------------------------------------------------------------------

struct Pool {
  const char* name;
  const char* file;
  int copies;   // of every node
  double goal;  // s
};

const Pool kPools[] = {
    {"16 GPUs of 4 kinds (hetpipe-paper)", "hetpipe-paper.toml", 1, 1},
    {"64 GPUs of 4 kinds (hetpipe-paper, every node four times)", "hetpipe-paper.toml", 4, 10},
    {"1,024 GPUs of 6 kinds (six-generations-1024)", "six-generations-1024.toml", 1, 120},
};

Cluster pool_of(const Pool& pool, const std::string& configs) {
  Cluster cluster = load_cluster(configs + "/" + pool.file);
  const std::vector<Node> once = cluster.nodes;
  for (int copy = 1; copy < pool.copies; ++copy) {
    for (Node node : once) {
      node.name += std::to_string(copy);
      cluster.nodes.push_back(node);
    }
  }
  return cluster;
}

struct Model {
  std::string name;
  Profile profile;
};

// Of ResNet-152 and VGG-19 as measured, and of one whose first and last layers have the same
// weights.
std::vector<Model> models_of(const std::string& configs, const std::string& tied) {
  std::vector<Model> models;
  for (const char* name : {"resnet152", "vgg19"}) {
    models.push_back({name, load_profile(configs + "/profiles/" + name + ".toml")});
  }
  Profile profile = load_profile(tied);
  const auto shares = [](const ProfileLayer& layer) { return !layer.shares.empty(); };
  if (std::none_of(profile.layers.begin(), profile.layers.end(), shares)) {
    throw UserError(tied,
                    "no layer shares another one's parameters. Give a model with tied weights.");
  }
  models.push_back({profile.model + ", tied", std::move(profile)});
  return models;
}

void measure_searches(RawValues& raw, int rounds, const std::string& configs,
                      const std::vector<Model>& models, const std::string& only) {
  std::puts(
      "\nThe search, from cluster and profile in memory to the plan, estimates of unmeasured kinds "
      "and the plans of the other planners included, seconds. Systems: hetpipe alone "
      "(--system hetpipe) or all that train as serial training would (no --system). The goal is "
      "for "
      "the slowest round.\n");
  std::puts(
      "| pool | model | systems | median (quartiles) | worst | worst, CPU | simulations | "
      "million actions | samples/s | bound | goal, s | met |");
  std::puts("|---|---|---|---|---|---|---|---|---|---|---|---|");
  for (const Pool& pool : kPools) {
    if (std::string(pool.name).find(only) == std::string::npos) continue;
    const Cluster cluster = pool_of(pool, configs);
    for (const Model& timed : models) {
      const char* const model = timed.name.c_str();
      for (const SystemChoice choice : {SystemChoice::requested, SystemChoice::any}) {
        std::vector<double> wall, cpu;
        SearchResult result;
        for (int r = 0; r < (pool.goal > 20 ? std::min(rounds, 3) : rounds); ++r) {
          const Seconds seconds = seconds_of([&] {
            PlanRequest request;
            request.cluster = cluster;
            request.profile = with_estimates(timed.profile, cluster, Precision::fp32);
            request.search = {choice, {0, 1, 4}, {"default", "local"}};  // as the command does
            result = search_plans(request);
          });
          wall.push_back(seconds.wall);
          cpu.push_back(seconds.cpu);
        }
        const char* systems = choice == SystemChoice::any ? "all" : "hetpipe";
        raw.add(format("search, %s, %s, %s, s", pool.name, model, systems), wall);
        raw.add(format("search, %s, %s, %s, CPU s", pool.name, model, systems), cpu);
        const Spread spread = spread_of(wall);
        std::printf("| %s | %s | %s | %s | %.3f | %.3f | %lld | %.2f | %.4g | %.4g | %g | %s |\n",
                    pool.name, model, systems, to_string(spread, "%.3f").c_str(), spread.most,
                    spread_of(cpu).most, static_cast<long long>(result.simulations),
                    1e-6 * static_cast<double>(result.actions), result.plan.predicted->throughput,
                    result.bound, pool.goal, spread.most < pool.goal ? "yes" : "no");
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  using namespace hetpipe;
  const bool smallest = bench::take_smallest(argc, argv);
  if (argc != 5 && argc != 6) {
    std::fprintf(stderr,
                 "usage: bench_planner_speed [--smallest] RAW.json ROUNDS CONFIGS TIED.toml "
                 "[POOL]\n");
    return 2;
  }
  try {
    bench::RawValues raw(argv[1]);
    const std::string only = argc == 6 ? argv[5] : "";  // the pools whose names hold this
    if (only.empty()) bench::measure_partitions(raw, smallest ? 1 : 100);
    bench::measure_searches(raw, std::atoi(argv[2]), argv[3], bench::models_of(argv[3], argv[4]),
                            smallest ? bench::kPools[0].name : only);
  } catch (const UserError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return 0;
}
