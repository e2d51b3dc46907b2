// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "../cases.h"
#include "partitioner/cost/memory.h"
#include "partitioner/planners/explain.h"
#include "partitioner/planners/search_bound.h"
#include "partitioner/planners/search_score.h"
#include "partitioner/planners/search_space.h"
#include "partitioner/profile/estimate.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace search_test {

using test::user_error;
using testing::HasSubstr;

PlanRequest random_request(std::mt19937& random) {
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  const int devices = integer(0, 4) == 0 ? 3 : integer(1, 2);
  const int layers = devices == 3 ? integer(2, 3) : integer(2, 4);
  std::vector<std::vector<std::string>> nodes(1);
  for (int d = 0; d < devices; ++d) {
    if (d > 0 && integer(0, 1) == 0) nodes.emplace_back();
    nodes.back().push_back(integer(0, 1) == 0 ? "fast" : "slow");
  }
  PlanRequest request;
  request.cluster = test::cluster_of(nodes, 1'000'000);
  request.cluster.intra_node = {integer(1, 20) * 1e6, integer(0, 3) * 1e-4, false};
  request.cluster.inter_node = {integer(1, 20) * 1e5, integer(0, 9) * 1e-4, false};
  std::vector<std::string> kinds;
  for (const DeviceKind& kind : request.cluster.kinds) kinds.push_back(kind.name);
  request.profile = test::chain_of(
      layers, kinds, [](const std::string& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  for (Measurement& m : request.profile.change().measurements) {
    for (double& seconds : m.forward) seconds *= integer(5, 20) / 10.0;
    for (double& seconds : m.backward) seconds *= integer(5, 20) / 10.0;
    for (auto& bytes : m.output_bytes) bytes = integer(1, 40) * 100;
  }
  std::int64_t parameters = 0;
  for (ProfileLayer& layer : request.profile.change().layers) {
    parameters += layer.parameter_bytes = integer(1, 30) * 100;
  }
  for (DeviceKind& kind : request.cluster.kinds) kind.memory = parameters * integer(5, 40);
  request.in_flight = integer(1, 3);
  request.clock_distance = integer(0, 1);
  return request;
}

// Every set of virtual workers over any of the devices, every order and every cut, written down
// once more: `visit` sees each as a plan.
class EveryPlan {
 public:
  EveryPlan(const PlanRequest& request, std::function<void(const Plan&)> visit)
      : devices_(request.cluster.devices()),
        layers_(static_cast<int>(request.profile->layers.size())),
        visit_(std::move(visit)) {
    plan_ = blank_plan(request);
    plan_.minibatch = 32;
    plan_.in_flight = *request.in_flight;
    plan_.server = server_of(request);
    // owner[d]: the virtual worker of device d, or -1; restricted growth, so each set once.
    std::vector<int> owner(devices_.size(), -1);
    assign(owner, 0, 0);
  }

 private:
  void assign(std::vector<int>& owner, std::size_t d, int workers) {
    if (d == devices_.size()) {
      if (workers > 0) cut(owner, 0, workers);
      return;
    }
    for (int w = -1; w <= workers; ++w) {
      owner[d] = w;
      assign(owner, d + 1, std::max(workers, w + 1));
    }
  }

  void cut(const std::vector<int>& owner, int worker, int workers) {
    if (worker == workers) {
      visit_(plan_);
      return;
    }
    std::vector<std::size_t> order;
    for (std::size_t d = 0; d < owner.size(); ++d) {
      if (owner[d] == worker) order.push_back(d);
    }
    const int stages = static_cast<int>(order.size());
    do {
      // The cuts are the bits of a mask over the layers' ends.
      for (unsigned mask = 0; mask < 1u << (layers_ - 1); ++mask) {
        if (__builtin_popcount(mask) + 1 != stages) continue;
        PlanVirtualWorker vw;
        int first = 0;
        for (int l = 1; l <= layers_; ++l) {
          if (l < layers_ && (mask >> (l - 1) & 1) == 0) continue;
          PlanStage stage;
          stage.first_layer = first;
          stage.end_layer = first = l;
          stage.devices = {devices_[order[vw.stages.size()]]};
          vw.stages.push_back(stage);
        }
        plan_.virtual_workers.push_back(vw);
        cut(owner, worker + 1, workers);
        plan_.virtual_workers.pop_back();
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }

  std::vector<DeviceName> devices_;
  int layers_;
  std::function<void(const Plan&)> visit_;
  Plan plan_;
};

bool fits_memory(const Plan& plan, const PlanRequest& request) {
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      const auto ledger =
          stage_ledger(plan, request.cluster, request.profile,
                       VirtualWorkerId{static_cast<int>(vw)}, StageId{static_cast<int>(k)});
      const DeviceName& device = plan.virtual_workers[vw].stages[k].devices.front();
      if (ledger.total() > request.cluster.kind_of(device).memory) return false;
    }
  }
  return true;
}

// With Nm and D given all plans have one staleness: the fastest is to be found.
TEST(Search, EqualsBruteForceOnRandomCases) {
  std::mt19937 random(20261121);
  int fit = 0, nothing = 0, idle = 0, pipelines = 0;
  for (int i = 0; i < 1600; ++i) {
    const PlanRequest request = random_request(random);
    double best = 0;
    EveryPlan(request, [&](const Plan& plan) {
      if (!fits_memory(plan, request)) return;
      best = std::max(best, simulate(plan, request.cluster, request.profile).throughput);
    });
    if (best == 0) {
      ++nothing;
      EXPECT_THAT(user_error([&] { search_plans(request); }), HasSubstr("no plan was found"));
      continue;
    }
    ++fit;
    const SearchResult found = search_plans(request);
    ASSERT_NEAR(found.plan.predicted->throughput, best, 1e-9 * best) << "case " << i;
    EXPECT_TRUE(found.exact);
    EXPECT_GE(found.bound, best * (1 - 1e-9)) << "case " << i;
    EXPECT_TRUE(fits_memory(found.plan, request));
    idle += !found.left_out.empty();
    pipelines += found.plan.virtual_workers.front().stages.size() > 1;
  }
  EXPECT_GE(fit, 1000);
  EXPECT_GT(nothing, 5);
  EXPECT_GT(idle, 50);
  EXPECT_GT(pipelines, 100);
}

// n equal devices, no messages to speak of: n times one device is the bound.
TEST(Search, TheBoundOfEqualDevicesIsTheirSum) {
  const Cluster cluster = test::cluster_of({{"a", "a"}, {"a"}}, 1'000'000'000);
  const Profile profile = test::chain_of(5, {"a"}, [](const auto&) { return 1e-3; });
  EXPECT_NEAR(throughput_bound(cluster, profile, 32), 3 * 32 / (5 * 3e-3), 1e-6);
}

// Two kinds that are each good at one half of the layers: the bound knows that each takes its half.
TEST(Search, TheBoundKnowsWhoIsGoodAtWhat) {
  const Cluster cluster = test::cluster_of({{"a", "b"}}, 1'000'000'000);
  Profile profile = test::chain_of(2, {"a", "b"}, [](const auto&) { return 1e-3; });
  profile.measurements[0].forward = {1e-3, 9e-3};
  profile.measurements[0].backward = {0, 0};
  profile.measurements[1].forward = {9e-3, 1e-3};
  profile.measurements[1].backward = {0, 0};
  EXPECT_NEAR(throughput_bound(cluster, profile, 32), 32 / 1e-3, 1);
}

PlanRequest lab_of(const std::vector<std::vector<std::string>>& nodes, double slow) {
  PlanRequest request;
  request.cluster = test::cluster_of(nodes, 1'000'000'000);
  std::vector<std::string> kinds;
  for (const DeviceKind& kind : request.cluster.kinds) kinds.push_back(kind.name);
  request.profile = test::chain_of(
      12, kinds, [&](const auto& kind) { return kind == "fast" ? 1e-3 : 1e-3 * slow; });
  return request;
}

TEST(Search, LeavesADeviceOutAndSaysWhatItCosts) {
  PlanRequest request = lab_of({{"fast", "fast"}, {"slow"}}, 50);
  request.cluster.inter_node = {1e5, 1e-3, false};
  const SearchResult found = search_plans(request);
  ASSERT_EQ(found.left_out.size(), 1u);
  EXPECT_EQ(to_string(found.left_out[0].device), "n1:0");
  ASSERT_TRUE(found.left_out[0].change);
  EXPECT_LT(*found.left_out[0].change, 0.01);
  for (const PlanVirtualWorker& worker : found.plan.virtual_workers) {
    for (const PlanStage& stage : worker.stages) EXPECT_EQ(stage.devices[0].node, "n0");
  }
}

TEST(Search, WhatIsGivenStays) {
  PlanRequest request = lab_of({{"fast", "slow"}, {"fast", "slow"}}, 2);
  request.virtual_workers = 2;
  request.in_flight = 3;
  request.minibatch = 64;
  request.clock_distance = 2;
  request.server_nodes = {"n1"};
  const Plan plan = plan_search(request);
  EXPECT_EQ(plan.virtual_workers.size(), 2u);
  EXPECT_EQ(plan.in_flight, 3);
  EXPECT_EQ(plan.minibatch, 64);
  EXPECT_EQ(plan.server->clock_distance, 2);
  EXPECT_EQ(plan.server->nodes, std::vector<std::string>{"n1"});
  check_plan(plan, "plan", &request.cluster, 12);
}

// Of plans within half a percent the one of least staleness: with quick links D brings nothing.
TEST(Search, StalenessMustPay) {
  PlanRequest request = lab_of({{"fast", "fast"}}, 1);
  request.search.clock_distances = {4, 1, 0};
  EXPECT_EQ(search_plans(request).plan.server->clock_distance, 0);
}

TEST(Search, AnySystemIsNoWorseThanTheOneAskedFor) {
  const PlanRequest request = lab_of({{"fast", "slow"}, {"fast"}}, 2);
  PlanRequest any = request;
  any.search.systems = SystemChoice::any;
  const SearchResult all = search_plans(any);
  EXPECT_GE(all.plan.predicted->throughput,
            0.99 * search_plans(request).plan.predicted->throughput);
  std::set<std::string> systems;
  for (const SearchCandidate& candidate : all.considered) {
    if (candidate.throughput > 0)
      systems.insert(candidate.what.substr(0, candidate.what.find(',')));
  }
  EXPECT_GE(systems.size(), 5u);
}

// Behind slow links virtual workers gain by exchanging rarely, if what that costs in samples
// counts.
TEST(Search, TakesRoundsWhereTheyPay) {
  PlanRequest request = lab_of({{"fast", "fast"}, {"fast", "fast"}}, 50);
  request.search.systems = SystemChoice::any;
  request.objective = PlanObjective::time_to_accuracy;
  request.critical_batch = 4000;
  request.cluster.inter_node = {1e5, 1e-3, false};
  const SearchResult slow = search_plans(request);
  EXPECT_EQ(slow.plan.sync, "outer");
  EXPECT_GT(slow.plan.server->round, 1);
  EXPECT_EQ(slow.plan.server->clock_distance, 1);
  EXPECT_DOUBLE_EQ(slow.worth, request.worth(slow.plan, slow.plan.predicted->throughput));
  check_plan(slow.plan, "plan", &request.cluster, 12);
  request.sync = "wsp";
  EXPECT_LT(search_plans(request).worth, slow.worth);
  request.sync = "";
  request.cluster.inter_node = request.cluster.intra_node = {1e12, 0, false};
  EXPECT_NE(search_plans(request).plan.sync, "outer");
}

// What the search finds of data parallelism in rounds alone, it finds among all systems too.
TEST(Search, ExploresDataParallelismInRounds) {
  const std::filesystem::path source = HETPIPE_SOURCE_DIR;
  PlanRequest request;
  request.cluster = load_cluster(source / "cluster-configs/hetpipe-paper-scaled.toml");
  request.profile = load_profile(source / "tests/profiles/lenet.toml");
  request.objective = PlanObjective::time_to_accuracy;
  request.minibatch = 32;
  request.policy = "search";
  request.system = "data-parallel";
  request.sync = "outer";
  const Plan alone = make_plan(request);
  request.system = "hetpipe";
  request.sync = "";
  request.search.systems = SystemChoice::any;
  EXPECT_GE(search_plans(request).worth, 0.99 * request.worth(alone, alone.predicted->throughput));
}

std::vector<std::filesystem::path> toml_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

const std::string kConfigs = std::string(HETPIPE_SOURCE_DIR) + "/cluster-configs";

// Every other planner as a user calls it: with its own minibatch, or at one that is given.
std::vector<PlanRequest> other_planners(const PlanRequest& request) {
  std::vector<PlanRequest> others;
  for (const char* policy : {"np", "ed", "hd"}) {
    for (const char* placement : {"default", "local"}) {
      PlanRequest other = request;
      other.policy = policy;
      other.placement = placement;
      other.partition_work = 4'000'000;  // seconds go by before 400 million change a plan here
      others.push_back(std::move(other));
    }
  }
  for (const char* system : {"dapple", "pipedream", "pipedream-2bw", "data-parallel", "ssp"}) {
    PlanRequest other = request;
    other.system = system;
    others.push_back(std::move(other));
  }
  return others;
}

PlanRequest free_search(PlanRequest request) {
  request.search = {SystemChoice::any, {0, 1, 4}, {"default", "local"}};
  return request;
}

void expect_never_worse(const PlanRequest& request, const std::string& what, int& compared) {
  const SearchResult found = search_plans(free_search(request));
  const double throughput = found.plan.predicted->throughput;
  EXPECT_NEAR(throughput, simulate(found.plan, request.cluster, request.profile).throughput,
              1e-9 * throughput);
  EXPECT_GE(found.bound, throughput * (1 - 1e-9)) << what;
  for (const PlanRequest& other : other_planners(request)) {
    try {
      const Plan plan = make_plan(other);
      EXPECT_GE(throughput, plan.predicted->throughput * (1 - 1e-9))
          << what << ": " << other.policy.value_or(other.system) << " " << other.placement;
      ++compared;
    } catch (const UserError&) {  // it refuses this cluster
    }
  }
}

// On every shipped cluster of a size that a test can plan with all planners.
TEST(Search, NeverWorseThanAnotherPlanner) {
  int compared = 0;
  for (const auto& file : toml_files(kConfigs)) {
    PlanRequest request;
    request.cluster = load_cluster(file);
    if (request.cluster.devices().size() > 64) continue;
    const std::string name = file.stem();
    if (request.cluster.emulated()) {  // runs at the pace of this machine, measured by nobody here
      request.profile = test::chain_of(16, {"cpu"}, [](const auto&) { return 1e-3; });
      expect_never_worse(request, name, compared);
      continue;
    }
    const bool few = request.cluster.devices().size() <= 9;
    for (const char* model : {"vgg19", "resnet152"}) {
      if (model == std::string("resnet152") && !few && name != "hetpipe-paper") continue;
      request.profile = with_estimates(load_profile(kConfigs + "/profiles/" + model + ".toml"),
                                       request.cluster, Precision::fp32);
      expect_never_worse(request, name + " " + model, compared);
    }
  }
  EXPECT_GE(compared, 100);
}

// DAPPLE's planner takes larger minibatches where none is given, the search then may as well.
TEST(Search, AMinibatchThatIsGivenStays) {
  PlanRequest request = lab_of({{"fast", "fast"}, {"slow"}}, 2);
  request.minibatch = 64;
  const Plan plan = plan_search(free_search(request));
  EXPECT_EQ(plan.minibatch, 64);
}

// A drained pipeline of one micro-batch would stand still most of the time.
TEST(Search, ADrainedSystemTakesEightTimesTheMeasuredBatch) {
  PlanRequest request;
  request.cluster = test::cluster_of({{"fast", "slow"}, {"slow"}}, 1'000'000'000);
  request.profile = test::chain_of(8, {"fast", "slow"},
                                   [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  const int measured = default_minibatch(request);
  EXPECT_EQ(search_plans(request).plan.minibatch, measured);
  request.system = "gpipe";
  EXPECT_EQ(search_plans(request).plan.minibatch, 8 * measured);
  const Plan sliced = search_plans(request).plan;  // into what was measured, at the least
  EXPECT_GT(sliced.micro_batches, 1);
  EXPECT_GE(sliced.minibatch / sliced.micro_batches, measured);
  request.minibatch = measured;
  EXPECT_GT(search_plans(request).plan.micro_batches, 1) << "asked for";
  request.minibatch.reset();
  request.micro_batches = 2;
  EXPECT_EQ(search_plans(request).plan.minibatch, default_minibatch(request));
  request.minibatch = 4 * measured;
  EXPECT_EQ(search_plans(request).plan.minibatch, 4 * measured);
}

// HetPipe's testbed: what the paper's policies and local placement promise.
TEST(Search, HetPipesTestbed) {
  for (const char* model : {"vgg19", "resnet152"}) {
    PlanRequest request;
    request.cluster = load_cluster(kConfigs + "/hetpipe-paper.toml");
    request.profile = with_estimates(load_profile(kConfigs + "/profiles/" + model + ".toml"),
                                     request.cluster, Precision::fp32);
    double best = 0;
    std::map<std::string, double> bytes;
    for (const char* policy : {"np", "ed", "hd"}) {
      for (const char* placement : {"default", "local"}) {
        PlanRequest other = request;
        other.policy = policy;
        other.placement = placement;
        const Plan plan = make_plan(other);
        if (placement == request.placement) best = std::max(best, plan.predicted->throughput);
        bytes[std::string(policy) + "/" + placement] =
            simulate(plan, request.cluster, request.profile).bytes_between_nodes;
      }
    }
    EXPECT_GE(plan_search(request).predicted->throughput, best * (1 - 1e-9)) << model;
    for (const auto& [what, crossing] : bytes) {
      if (what == "ed/local") continue;
      EXPECT_LT(bytes["ed/local"], crossing) << model << " " << what;
    }
  }
}

// Cuts of several plans near the best are polished until that brings little: with one share of the
// work each, DAPPLE's plan seemed the best of all systems here, more than 1 % behind what HetPipe
// alone gives.
TEST(Search, AllSystemsAreWorthAsMuchAsHetPipeAlone) {
  PlanRequest request;
  request.cluster = load_cluster(kConfigs + "/hetpipe-paper.toml");
  request.profile = with_estimates(load_profile(kConfigs + "/profiles/resnet152.toml"),
                                   request.cluster, Precision::fp32);
  request.objective = PlanObjective::throughput;
  request.search = {SystemChoice::requested, {0, 1, 4}, {"default", "local"}};
  const SearchResult hetpipe = search_plans(request);
  const double alone = hetpipe.worth;
  request.search.systems = SystemChoice::any;
  const SearchResult any = search_plans(request);
  double best = 0;
  for (const SearchCandidate& candidate : any.considered) best = std::max(best, candidate.worth);
  EXPECT_GE(best, 0.999 * alone);
  // Fresher weights, and they alone, may cost half a percent.
  const bool fresher = staleness_of(any.plan) < staleness_of(hetpipe.plan);
  EXPECT_GE(any.worth, (fresher ? 0.995 : 0.999) * alone);
}

// Of everything that was simulated the best by the objective, up to the half a percent that buys
// fresher weights.
TEST(Search, TimeToAccuracyIsWhatItLooksFor) {
  PlanRequest request;
  request.cluster =
      test::cluster_of({{"fast", "slow"}, {"fast", "slow"}, {"fast"}, {}}, 1'000'000'000);
  request.profile = test::chain_of(8, {"fast", "slow"},
                                   [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  request.policy = "search";
  request.search.systems = SystemChoice::any;
  const SearchResult fastest = search_plans(request);
  request.objective = PlanObjective::time_to_accuracy;
  request.critical_batch = 100;
  const SearchResult chosen = search_plans(request);
  EXPECT_DOUBLE_EQ(chosen.worth,
                   chosen.plan.predicted->throughput / samples_factor(chosen.plan, 100));
  const auto worth = [&](const Plan& plan) {
    return plan.predicted->throughput / samples_factor(plan, 100);
  };
  EXPECT_GT(worth(chosen.plan), worth(fastest.plan));
  EXPECT_LT(unseen_samples(chosen.plan).all(), unseen_samples(fastest.plan).all());
  for (const SearchCandidate& other : chosen.considered) {
    EXPECT_LE(other.worth, chosen.worth * 1.0051) << other.what;
  }
}

// No layer moved from the bottleneck, and no device left idle, makes the plan better by more than
// the search gives away for fresher weights.
TEST(Search, FollowsItsOwnAdvice) {
  PlanRequest request;
  request.cluster = load_cluster(kConfigs + "/lab-drawer.toml");
  request.profile = with_estimates(load_profile(kConfigs + "/profiles/vgg19.toml"), request.cluster,
                                   request.precision);
  request.policy = "search";
  const SearchResult result = search_plans(request);
  for (const Alternative& move : explain(request, result.plan).moves) {
    if (move.relative) {
      EXPECT_LT(*move.relative, 0.0102) << move.what;
    }
  }
  for (const LeftOut& left : result.left_out) {
    EXPECT_LT(left.change.value_or(0), 0.0102) << to_string(left.device);
  }
}

// A step to fewer and larger micro-batches that no device could hold is a plan that does not run,
// not the end of the search.
TEST(Search, SharesOfMicroBatchesThatNoDeviceHolds) {
  PlanRequest request;
  request.system = "dapple";
  request.cluster = test::cluster_of({{"a", "a"}}, 1'000'000'000);
  request.profile = test::chain_of(2, {"a"}, [](const auto&) { return 1e-3; });
  request.profile.change().measurements[0].output_bytes.assign(2,
                                                               1'000'000'000'000);  // of 32 samples
  CutCache cuts;
  const std::vector<Packing> packings;
  SearchSpace space(search_rows(request).front(), 256, cuts, packings);
  Plan plan = blank_plan(request);
  plan.minibatch = 256;
  plan.micro_batches = 8;
  plan.virtual_workers.resize(1);
  PlanStage stage;
  stage.end_layer = 2;
  stage.devices = request.cluster.devices();
  plan.virtual_workers[0].stages = {stage};
  ASSERT_TRUE(space.share(plan));
  Knobs whole = space.knobs_of(plan);
  whole.micro_batches = 1;
  const Plan larger = space.with_knobs(plan, whole);
  PlanScores scores(request.cluster, request.profile);
  EXPECT_EQ(scores.throughput(larger), std::nullopt);
  EXPECT_NE(scores.why_not(), "");
}

// Three nodes, of which a plan uses two.
class SearchServers : public testing::Test {
 protected:
  SearchServers() {
    request_.system = "hetpipe";
    request_.cluster = test::cluster_of({{"a"}, {"a"}, {"a"}}, 1'000'000'000);
    request_.profile = test::chain_of(4, {"a"}, [](const auto&) { return 1e-3; });
    request_.minibatch = 32;
    request_.search = {SystemChoice::requested, {0}, {"default", "local"}};
  }

  // The nodes with shards, for each choice of servers; what a plan says is what was chosen.
  using Nodes = std::vector<std::string>;
  std::set<Nodes> nodes_with(const std::string& placement, bool single = false) {
    CutCache cuts;
    const std::vector<Packing> none;
    SearchSpace space(search_rows(request_).front(), 32, cuts, none);
    Knobs first = space.first_knobs(1);
    first.placement = placement;
    const auto plan = space.plan({{{"n0", 0}}, {{"n1", 0}}}, first);
    std::set<Nodes> result;
    for (const Knobs& knobs :
         single ? space.with_one_server(first) : space.with_servers(first, *plan)) {
      const Plan served = space.with_knobs(*plan, knobs);
      EXPECT_EQ(space.with_knobs(served, space.knobs_of(served)), served);
      if (knobs.placement != placement) continue;
      EXPECT_TRUE(result.insert(served.server->nodes).second);
    }
    return result;
  }

  PlanRequest request_;
};

// On the first, on all with devices, on the plan's, on the other one.
TEST_F(SearchServers, OnNodesOfThePlanAndOnOthers) {
  EXPECT_EQ(nodes_with("default"),
            (std::set<Nodes>{{"n0"}, {"n0", "n1", "n2"}, {"n0", "n1"}, {"n2"}}));
  EXPECT_EQ(nodes_with("local"), (std::set<Nodes>{{"n0", "n1", "n2"}}));
}

// A machine without devices serves together with one whose devices are idle.
TEST_F(SearchServers, OnMachinesWithoutDevices) {
  request_.cluster.nodes.push_back({"cpu", {}});
  EXPECT_EQ(nodes_with("default"),
            (std::set<Nodes>{{"cpu"}, {"n0", "n1", "n2"}, {"n0", "n1"}, {"n2", "cpu"}}));
}

TEST_F(SearchServers, OnEachNodeAlone) {
  EXPECT_EQ(nodes_with("default", true), (std::set<Nodes>{{"n0"}, {"n1"}, {"n2"}}));
  EXPECT_TRUE(nodes_with("local", true).empty());
}

TEST_F(SearchServers, WhereTheUserSays) {
  request_.server_nodes = {"n1"};
  EXPECT_EQ(nodes_with("default"), (std::set<Nodes>{{"n1"}}));
  EXPECT_TRUE(nodes_with("default", true).empty());
}

// The next smaller and larger divisors of the minibatch; at an end fewer.
TEST(Search, NearDepths) {
  PlanRequest request;
  request.system = "gpipe";
  request.cluster = test::cluster_of({{"a", "a"}}, 1'000'000'000);
  request.profile = test::chain_of(4, {"a"}, [](const auto&) { return 1e-3; });
  request.minibatch = 12;
  request.search.systems = SystemChoice::requested;
  CutCache cuts;
  const std::vector<Packing> none;
  SearchSpace space(search_rows(request).front(), 12, cuts, none);
  Knobs knobs = space.first_knobs(2);
  const auto near = [&](int micro_batches) {
    knobs.micro_batches = micro_batches;
    std::vector<int> depths;
    for (const Knobs& other : space.with_near_depths(knobs)) depths.push_back(other.micro_batches);
    return depths;
  };
  EXPECT_EQ(near(4), (std::vector<int>{3, 4, 6}));
  EXPECT_EQ(near(1), (std::vector<int>{1, 2}));
  EXPECT_EQ(near(12), (std::vector<int>{6, 12}));
}

}  // namespace search_test
}  // namespace hetpipe
