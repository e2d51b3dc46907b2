// SPDX-License-Identifier: Apache-2.0
// A plan of the search follows its own advice: no pool with a device less, no single step, no other
// planner and no single system gives a plan that is worth more than 1 % more.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/planners/search.h"
#include "partitioner/planners/search_score.h"
#include "partitioner/planners/search_smaller_pools.h"
#include "partitioner/planners/search_space.h"
#include "partitioner/profile/estimate.h"
#include "partitioner/profile/profile.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace {

constexpr double kBetter = 1.01;

int integer(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution<int>(low, high)(random);
}

// One to four machines with one or two kinds of GPUs of the catalogue, one to three of each.
Cluster random_pool(std::mt19937& random) {
  static const std::vector<std::string> kKinds{"rtx-3090", "rtx-2080-ti", "gtx-1080-ti", "a100",
                                               "t4",       "v100",        "rtx-2060",    "a40"};
  Cluster cluster;
  const int nodes = integer(random, 1, 4);
  for (int n = 0; n < nodes; ++n) {
    Node node{"n" + std::to_string(n), {}};
    const int groups = integer(random, 1, 2);
    for (int g = 0; g < groups; ++g) {
      const DeviceKind kind = *try_catalogue_kind(kKinds[static_cast<std::size_t>(
          integer(random, 0, static_cast<int>(kKinds.size()) - 1))]);
      int index = 0;
      while (index < static_cast<int>(cluster.kinds.size()) &&
             cluster.kinds[static_cast<std::size_t>(index)].name != kind.name) {
        ++index;
      }
      if (index == static_cast<int>(cluster.kinds.size())) cluster.kinds.push_back(kind);
      const int count = integer(random, 1, 3);
      node.kinds.insert(node.kinds.end(), static_cast<std::size_t>(count), index);
    }
    cluster.nodes.push_back(std::move(node));
  }
  static const double kBandwidths[]{0.125e9, 1.25e9, 3e9, 12e9};
  cluster.intra_node = {12e9, 10e-6, false};
  cluster.inter_node = {kBandwidths[integer(random, 0, 3)], 50e-6, false};
  return cluster;
}

// Ten to thirty layers, of a convolutional network's shape (activations shrink, parameters grow) or
// of a transformer's, of which devices' times are estimated.
Profile random_model(std::mt19937& random) {
  const int layers = integer(random, 10, 30);
  const bool shrinks = integer(random, 0, 1) == 0;
  const double flops = 1e9 * integer(random, 1, 20);  // of a sample, in all layers
  const double output = 1e6 * integer(random, 1, 8);  // of the first layer
  const double parameters = 1e6 * integer(random, 10, 400);
  Profile profile;
  profile.model = "random";
  for (int l = 0; l < layers; ++l) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    if (l > 0) layer.inputs = {l - 1};
    const double along = static_cast<double>(l) / layers;
    layer.forward_flops = flops / layers * integer(random, 5, 15) / 10;
    layer.output_bytes = std::floor(shrinks ? output * std::pow(0.02, along) : output / 4);
    layer.stash_bytes = 2 * layer.output_bytes;
    layer.parameter_bytes =
        static_cast<std::int64_t>(parameters * (shrinks ? 2 * along / layers : 1.0 / layers)) / 4 *
        4;
    if (l == 0) layer.input_bytes = 600'000;
    profile.layers.push_back(layer);
  }
  return profile;
}

PlanRequest random_request(std::mt19937& random) {
  PlanRequest request;
  request.cluster = random_pool(random);
  request.profile = with_estimates(random_model(random), request.cluster, Precision::fp32);
  request.minibatch = 32;
  request.objective =
      integer(random, 0, 1) == 0 ? PlanObjective::throughput : PlanObjective::time_to_accuracy;
  request.search = {SystemChoice::any, {0, 1, 4}, {"default", "local"}};
  request.chooses_sync = true;
  return request;
}

std::string described(const PlanRequest& request) {
  std::string text = request.weighs_lateness() ? "time to accuracy, " : "throughput, ";
  for (const Node& node : request.cluster.nodes) {
    text += node.name + " [ ";
    for (const int kind : node.kinds) {
      text += request.cluster.kinds[static_cast<std::size_t>(kind)].name + " ";
    }
    text += "] ";
  }
  return text + format("%.3g GB/s", request.cluster.inter_node.bandwidth / 1e9);
}

// How often something else was worth more.
struct Tally {
  int asked = 0;
  int better = 0;
};

void compare(const PlanRequest& request, const SearchResult& found, const Plan& other,
             const std::string& what, Tally& tally) {
  ++tally.asked;
  const double worth = request.worth(other, other.predicted->throughput);
  if (worth <= kBetter * found.worth) return;
  ++tally.better;
  ADD_FAILURE() << described(request) << ": " << what << " is worth " << worth << " ("
                << describe(other) << "), the search's " << found.worth << " ("
                << describe(found.plan) << ")";
}

void without_one(const PlanRequest& request, const SearchResult& found, Tally& tally) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const DeviceName& device : request.cluster.devices()) {
    const std::string& kind = request.cluster.kind_of(device).name;
    if (!seen.emplace(device.node, kind).second) continue;
    PlanRequest less = request;
    less.cluster = without_device(request.cluster, device);
    if (less.cluster.devices().empty()) continue;
    try {
      compare(request, found, plan_search(less), "without " + to_string(device) + " " + kind,
              tally);
    } catch (const UserError&) {  // nothing fits what is left
    }
  }
}

// One layer across any cut of any virtual worker.
void one_step(const PlanRequest& request, const SearchResult& found, Tally& tally) {
  for (std::size_t vw = 0; vw < found.plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k + 1 < found.plan.virtual_workers[vw].stages.size(); ++k) {
      for (const int by : {1, -1}) {
        Plan plan = found.plan;
        auto& stages = plan.virtual_workers[vw].stages;
        stages[k].end_layer += by;
        stages[k + 1].first_layer += by;
        if (stages[k].end_layer <= stages[k].first_layer ||
            stages[k + 1].end_layer <= stages[k + 1].first_layer) {
          continue;
        }
        PlanScores scores(request.cluster, request.profile);
        const auto throughput = scores.throughput(plan);
        if (!throughput) continue;
        plan.predicted->throughput = *throughput;
        compare(request, found, plan, format("a layer across cut %zu of worker %zu", k, vw), tally);
      }
    }
  }
}

void other_planners(const PlanRequest& request, const SearchResult& found, Tally& tally) {
  const auto ask = [&](PlanRequest other, const std::string& what) {
    try {
      compare(request, found, make_plan(other), what, tally);
    } catch (const UserError&) {  // it refuses this pool
    }
  };
  PlanRequest one = request;
  one.search = {};
  for (const char* policy : {"np", "ed", "hd"}) {
    one.policy = policy;
    ask(one, std::string("--policy ") + policy);
  }
  one.policy.reset();
  for (const char* system : {"dapple", "pipedream", "pipedream-2bw", "data-parallel", "ssp"}) {
    one.system = system;
    ask(one, std::string("--system ") + system);
  }
  for (const char* system : {"hetpipe", "spectrain", "xpipe", "gpipe", "zero-bubble"}) {
    one = request;
    one.search.systems = SystemChoice::requested;
    one.system = system;
    one.policy = "search";
    ask(one, std::string("--policy search --system ") + system);
  }
}

void expect_nothing_better(int first, int pools) {
  Tally removals, steps, planners;
  for (int i = first; i < first + pools; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    const PlanRequest request = random_request(random);
    std::optional<SearchResult> found;
    try {
      found = search_plans(request);
    } catch (const UserError&) {
      continue;  // the model fits nowhere
    }
    without_one(request, *found, removals);
    one_step(request, *found, steps);
    other_planners(request, *found, planners);
  }
  std::printf("better: %d of %d removals, %d of %d steps, %d of %d planners\n", removals.better,
              removals.asked, steps.better, steps.asked, planners.better, planners.asked);
  EXPECT_GT(removals.asked, pools);
  EXPECT_GT(planners.asked, 4 * pools);
}

TEST(SearchAdvice, NothingIsBetterInAFewPools) { expect_nothing_better(1, 6); }

// At 1 Gb/s without one A100: three virtual workers of two nodes each, cut alike, were worth 35 %
// more; the search of the whole pool did not look at them.
TEST(SearchAdvice, NothingIsBetterAtOneGigabitPerSecond) { expect_nothing_better(1237, 1); }

// Rounds of sixteen minibatches of 32 micro-batches take so long to simulate that a share of the
// work polished nothing: moving one layer was worth up to 4 % more.
TEST(SearchAdvice, NoStepIsBetterInLongRounds) {
  for (const unsigned seed : {1241U, 1217U}) {  // 12 and 13 devices
    std::mt19937 random(seed);
    const PlanRequest request = random_request(random);
    const SearchResult found = search_plans(request);
    Tally steps;
    one_step(request, found, steps);
    EXPECT_GT(steps.asked, 0);
  }
}

// What other rows promised far less than was known ended 10 % better (1239), the best cut of one
// row was best with another one's micro-batches (1017: 3 %), and the same virtual workers summed
// their gradients faster as a chain in another order (1061: 2 %); six devices in another order were
// left out, as a share of a polishing's work was over before (1019: 2 %); another system's plan was
// best with half of its micro-batches (1486: 3 %); and no steps started from the third and fourth
// plan with one virtual worker (1440: 3 %). No layer could move past a stage that has no room for
// it (1601: 2 %); two devices' best plan was of a row that was 18 % behind before it was polished
// (1228: 4 %). 1457 is asked below, too.
TEST(SearchAdvice, NoSystemAloneIsBetterInSmallPools) {
  for (const auto& [seed, system] : {std::pair(1239, "gpipe"),
                                     {1017, "zero-bubble"},
                                     {1061, "gpipe"},
                                     {1019, "gpipe"},
                                     {1486, "zero-bubble"},
                                     {1440, "zero-bubble"},
                                     {1601, "hetpipe"},
                                     {1228, "spectrain"},
                                     {1457, "hetpipe"}}) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const PlanRequest request = random_request(random);
    PlanRequest alone = request;
    alone.search.systems = SystemChoice::requested;
    alone.system = system;
    Tally systems;
    compare(request, search_plans(request), plan_search(alone), system, systems);
    EXPECT_EQ(systems.asked, 1);
  }
}

// The worth of the best that was considered under such an origin, and of all others.
std::pair<double, double> best_of_origin(const SearchResult& found, const std::string& origin) {
  double of = 0;
  double others = 0;
  for (const SearchCandidate& candidate : found.considered) {
    double& best = candidate.origin.starts_with(origin) ? of : others;
    best = std::max(best, candidate.worth);
  }
  return {of, others};
}

// The search of all systems missed what HetPipe's row by itself finds, with all of its work, and
// what it finds with three virtual workers, with which it was 22 % behind the best: 2 % each.
TEST(SearchAdvice, RowsAndNumbersByThemselves) {
  std::mt19937 random(1457);
  const SearchResult found = search_plans(random_request(random));
  const double together = best_of_origin(found, "search ").second;
  const double row = best_of_origin(found, "search of hetpipe alone").first;
  const double number = best_of_origin(found, "search with 3 virtual workers").first;
  EXPECT_GT(row, 1.02 * together);
  EXPECT_GT(number, 1.02 * together);
  EXPECT_EQ(found.worth, std::max(row, number));
}

// From the best plan that steps find, a random walk that loses worth on its way finds 4 % more.
TEST(SearchAdvice, Annealing) {
  std::mt19937 random(1314);
  const SearchResult found = search_plans(random_request(random));
  const auto [annealed, steps] = best_of_origin(found, "search, annealed");
  EXPECT_GT(annealed, 1.03 * steps);
  EXPECT_EQ(found.worth, annealed);
}

// With rounds of 16 waves, not 8, three virtual workers are worth 15 % more than two, which only
// the smaller pool without a V100 chose by chance.
TEST(SearchAdvice, RoundsOfMoreWaves) {
  std::mt19937 random(1198);
  const PlanRequest request = random_request(random);
  const SearchResult found = search_plans(request);
  EXPECT_GT(found.plan.server->round, 8);
  PlanRequest less = request;
  less.cluster = without_device(request.cluster, {"n0", 0});
  Tally removals;
  compare(request, found, plan_search(less), "without n0:0", removals);
  EXPECT_EQ(removals.asked, 1);
}

// The cards of cluster-configs/lab-storeroom.toml in other machines; kinds: an RTX 3090, an RTX
// 2080 Ti, a T4, a GTX 1080 Ti, an A100.
PlanRequest request_of_storeroom(std::vector<Node> nodes, const std::string& profile) {
  PlanRequest request;
  for (const char* kind : {"rtx-3090", "rtx-2080-ti", "t4", "gtx-1080-ti", "a100"}) {
    request.cluster.kinds.push_back(*try_catalogue_kind(kind));
  }
  request.cluster.nodes = std::move(nodes);
  request.cluster.intra_node = {12e9, 10e-6, false};
  request.cluster.inter_node = {1.25e9, 50e-6, false};
  request.profile = with_estimates(load_profile(std::string(HETPIPE_SOURCE_DIR) + profile),
                                   request.cluster, Precision::fp32);
  request.minibatch = 32;
  request.search = {SystemChoice::any, {0, 1, 4}, {"default", "local"}};
  return request;
}

// Simulating rounds takes so long that steps by simulations alone find little: what virtual workers
// take by themselves leads to a plan of GPT-2 that is worth 16 % more than what the search ends
// with otherwise.
TEST(SearchAdvice, RoundsAreAnnealed) {
  PlanRequest request =
      request_of_storeroom({{"a", {0, 0, 1, 2}}, {"c", {3, 3, 3, 3}}, {"d", {4, 4}}, {"cpu", {}}},
                           "/tests/profiles/gpt2.toml");
  request.objective = PlanObjective::time_to_accuracy;
  request.chooses_sync = true;
  const SearchResult found = search_plans(request);
  const auto [annealed, others] = best_of_origin(found, "search, annealed");
  EXPECT_TRUE(traits(composition(found.plan).sync).rounds);
  EXPECT_GT(annealed, 1.12 * others);
  EXPECT_EQ(found.worth, annealed);
}

// With six virtual workers and no other number of them HetPipe's ResNet-152 was 9 % faster than in
// the search of all numbers.
TEST(SearchAdvice, NumbersOfVirtualWorkersByThemselves) {
  PlanRequest request = request_of_storeroom(
      {{"a", {0, 4}}, {"b", {0, 4}}, {"c", {3, 3, 1}}, {"d", {3, 3, 2}}, {"cpu", {}}},
      "/cluster-configs/profiles/resnet152.toml");
  request.search.systems = SystemChoice::requested;
  request.system = "hetpipe";
  const SearchResult found = search_plans(request);
  PlanRequest of_six = request;
  of_six.virtual_workers = 6;
  Tally numbers;
  compare(request, found, plan_search(of_six), "with six virtual workers", numbers);
  EXPECT_EQ(numbers.asked, 1);
}

// Where links are slow, many minibatches have to be in flight. Virtual workers that hold few as
// they are cut at first come last by what they promise then, and were not cut for more: sixteen
// others had been simulated. Nor was such a cut found in a millisecond. Without an RTX 2060,
// HetPipe's ResNet-152 was 4 % faster.
TEST(SearchAdvice, ManyInFlightOnSmallDevices) {
  std::mt19937 random(5002);
  PlanRequest request = random_request(random);
  request.profile = with_estimates(
      load_profile(std::string(HETPIPE_SOURCE_DIR) + "/cluster-configs/profiles/resnet152.toml"),
      request.cluster, Precision::fp32);
  request.search.systems = SystemChoice::requested;
  request.system = "hetpipe";
  const SearchResult found = search_plans(request);
  EXPECT_GT(found.plan.in_flight, 8);
  Tally removals;
  PlanRequest less = request;
  less.cluster = without_device(request.cluster, {"n2", 0});
  compare(request, found, plan_search(less), "without n2:0", removals);
  EXPECT_EQ(removals.asked, 1);
}

// Devices without which a search found more than one of the whole pool, and why:
// 1211  plans of other rows, 15 % behind the best before they were polished, were 12 % better than
//       it; and one without a V100 was 7 % behind before any step and 5 % better in the end
// 1053  pipelines whose virtual workers exchange rounds were cut for devices of other rows alone:
//       7 %
// 1008  thirteen devices of six kinds on nodes got no more work than sixteen of four: 3 %
// 1528  servers were on the first or on all nodes, not on those alone that the plan uses: 8 %
// 1392  four devices had to be left out, those of two nodes of three: 4 %
// 1622  what promised little before it was cut for what fits was not cut; and all devices of a kind
//       had to be left out, which are on two nodes: 3 %
TEST(SearchAdvice, NoPoolIsBetterWithoutADevice) {
  const std::vector<std::pair<int, std::vector<DeviceName>>> kPools{{1211, {{"n3", 0}, {"n2", 0}}},
                                                                    {1053, {{"n2", 0}}},
                                                                    {1008, {{"n1", 2}}},
                                                                    {1528, {{"n3", 0}}},
                                                                    {1392, {{"n0", 0}}},
                                                                    {1622, {{"n1", 0}}}};
  for (const auto& [seed, devices] : kPools) {
    std::mt19937 random(static_cast<unsigned>(seed));
    const PlanRequest request = random_request(random);
    const SearchResult found = search_plans(request);
    Tally removals;
    for (const DeviceName& device : devices) {
      PlanRequest less = request;
      less.cluster = without_device(request.cluster, device);
      compare(request, found, plan_search(less), "without " + to_string(device), removals);
    }
    EXPECT_EQ(removals.asked, static_cast<int>(devices.size()));
  }
}

// With 32 devices 24 virtual workers of one each were worth 12 % more where one RTX 3090 was gone.
TEST(SearchAdvice, ThirtyTwoDevicesAreTooManyForOne) {
  const std::string configs = std::string(HETPIPE_SOURCE_DIR) + "/cluster-configs/";
  PlanRequest request;
  request.cluster = load_cluster(configs + "titan-2080-3090.toml");
  request.profile = with_estimates(load_profile(configs + "profiles/vgg19.toml"), request.cluster,
                                   Precision::fp32);
  request.search = {SystemChoice::any, {0, 1, 4}, {"default", "local"}};
  const SearchResult found = search_plans(request);
  const double whole = best_of_origin(found, "search without").second;
  EXPECT_GT(found.worth, 1.05 * whole);
}
TEST(SearchAdvice, CampaignOf500Pools) { expect_nothing_better(1000, 500); }

}  // namespace
}  // namespace hetpipe
