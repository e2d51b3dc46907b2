// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "../cases.h"
#include "partitioner/cost/memory.h"
#include "partitioner/planners/planner.h"
#include "partitioner/profile/estimate.h"

// Small requests of every kind, drawn by a seed: a planner answers each with a plan that holds or
// with a UserError, whatever ties, zeros and gaps stand in it.
namespace hetpipe {
namespace random_requests_test {

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  int between(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  bool one_in(int n) { return between(1, n) == 1; }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[between(0, static_cast<int>(values.size()) - 1)];
  }
  template <class T>
  std::optional<T> maybe(std::initializer_list<T> values) {
    if (one_in(2)) return std::nullopt;
    return of(values);
  }

 private:
  std::mt19937 random_;
};

Profile profile_of(Draw& draw, int kinds) {
  Profile profile;
  profile.model = "drawn";
  const int layers = draw.between(1, 12);
  for (int l = 0; l < layers; ++l) {
    ProfileLayer layer;
    layer.name = (l == 0 && draw.one_in(3) ? "Input" : "layer") + std::to_string(l);
    if (l > 0) layer.inputs = {l - 1};
    if (l > 1 && draw.one_in(4)) layer.inputs = {draw.between(0, l - 2), l - 1};
    layer.parameter_bytes = draw.of<std::int64_t>({0, 0, 1000, 1000, 4'000'000});
    layer.forward_flops = draw.of({0.0, 1e6, 1e9});
    layer.backward_flops = 2 * layer.forward_flops;
    layer.output_bytes = layer.stash_bytes = draw.of({0.0, 400.0, 1e6});
    if (l > 1 && layer.parameter_bytes == 1000 && draw.one_in(6)) {
      const ProfileLayer& other = profile.layers[static_cast<std::size_t>(draw.between(0, l - 1))];
      if (other.shares.empty() && other.parameter_bytes == 1000) layer.shares = other.name;
    }
    profile.layers.push_back(layer);
  }
  for (int k = 0; k < kinds; ++k) {
    if (draw.one_in(8)) continue;  // estimated, or refused
    const double unit = draw.of({1e-3, 1e-3, 2e-3, 1e-6});
    for (const int batch : draw.of<std::vector<int>>({{32}, {1}, {8, 32}})) {
      Measurement m;
      m.device = "kind" + std::to_string(k);
      m.batch = batch;
      for (int l = 0; l < layers; ++l) {
        m.forward.push_back(unit * draw.of({0, 1, 1, 1, 5}) * batch / 32);
        m.backward.push_back(unit * draw.of({0, 2, 2, 7}) * batch / 32);
        m.output_bytes.push_back(draw.of<std::int64_t>({0, 100, 100, 30'000}) * batch);
        m.stash_bytes.push_back(draw.of<std::int64_t>({0, 100, 100, 30'000}) * batch);
      }
      profile.measurements.push_back(m);
    }
  }
  return profile;
}

Cluster cluster_of(Draw& draw, int kinds) {
  Cluster cluster;
  for (int k = 0; k < kinds; ++k) {
    DeviceKind kind;
    kind.name = "kind" + std::to_string(k);
    kind.memory =
        draw.of<std::int64_t>({1'000'000'000, 1'000'000'000, 20'000'000, 2'000'000, 50'000});
    kind.peak_flops = draw.of({0.0, 1e12});
    kind.memory_bandwidth = kind.peak_flops;
    cluster.kinds.push_back(kind);
  }
  const int nodes = draw.between(1, 3);
  const int equal = draw.between(1, 4);
  const bool level = draw.one_in(2);
  for (int n = 0; n < nodes; ++n) {
    Node node{"n" + std::to_string(n), {}};
    const int devices = level ? equal : draw.between(n == 0 ? 1 : 0, 4);
    for (int d = 0; d < devices; ++d) node.kinds.push_back(draw.between(0, kinds - 1));
    cluster.nodes.push_back(node);
  }
  cluster.intra_node = {draw.of({10e9, 1e6}), draw.of({0.0, 1e-5}), false};
  // A cluster file of one node may leave the other link out.
  if (nodes > 1 || draw.one_in(2)) {
    cluster.inter_node = {draw.of({1e9, 1e6}), draw.of({0.0, 1e-4}), false};
  }
  return cluster;
}

PlanRequest request_of(Draw& draw) {
  const int kinds = draw.between(1, 2);
  PlanRequest request;
  request.profile = profile_of(draw, kinds);
  request.cluster = cluster_of(draw, kinds);
  request.in_flight = draw.maybe({1, 2, 3, 8});
  request.virtual_workers = draw.maybe({1, 2, 3});
  request.minibatch = draw.maybe({1, 3, 8, 32, 64});
  request.micro_batches = draw.maybe({1, 1, 2, 4});
  request.precision = draw.of({Precision::fp32, Precision::bf16});
  request.optimizer = draw.of<const char*>({"sgd", "sgd-momentum", "adam"});
  request.clock_distance = draw.between(0, 2);
  request.placement = draw.of<const char*>({"default", "local"});
  if (draw.one_in(4)) request.server_nodes = {"n0"};
  return request;
}

void expect_valid(const PlanRequest& request, const Plan& plan) {
  EXPECT_NO_THROW(check_plan(plan, "plan.toml", &request.cluster,
                             static_cast<int>(request.profile->layers.size())));
  EXPECT_EQ(parse_plan(to_toml(plan), "plan.toml"), plan) << to_toml(plan);
  ASSERT_TRUE(plan.predicted);
  EXPECT_FALSE(std::isnan(plan.predicted->throughput));
  EXPECT_GT(plan.predicted->throughput, 0);
  EXPECT_GE(plan.predicted->bottleneck, 0);
  for (std::size_t v = 0; v < plan.virtual_workers.size(); ++v) {
    const VirtualWorkerId id{static_cast<int>(v)};
    const int samples = plan.minibatch_of(id) / plan.micro_batches;
    const auto& stages = plan.virtual_workers[v].stages;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      for (const int share : samples_of_replicas(stages[k], samples)) EXPECT_GE(share, 1);
      ASSERT_TRUE(stages[k].predicted);
      const StageId stage{static_cast<int>(k)};
      const MemoryLedger ledger = stage_ledger(plan, request.cluster, request.profile, id, stage);
      EXPECT_EQ(stages[k].predicted->memory, ledger.total());
      EXPECT_EQ(stage_ledger(plan, request.cluster, request.profile, id, stage, std::nullopt,
                             request.tables->held(), request.tables.get()),
                ledger);
      for (const DeviceName& device : stages[k].devices) {
        EXPECT_LE(stages[k].predicted->memory, request.cluster.kind_of(device).for_plans());
      }
    }
  }
}

class RandomRequests : public testing::TestWithParam<unsigned> {};

TEST_P(RandomRequests, APlanThatHoldsOrAUserError) {
  Draw draw(GetParam());
  PlanRequest request = request_of(draw);
  request.tables = std::make_shared<ModelTables>();
  for (const System& system : systems()) {
    request.system = system.name;
    request.policy = draw.maybe({std::string("np"), std::string("ed"), std::string("hd")});
    // The search goes through every system by itself.
    if (draw.one_in(12)) request.policy = "search";
    if (system.planner == PlannerRule::search && !request.policy && !draw.one_in(4)) continue;
    SCOPED_TRACE(system.name + ", " + request.policy.value_or("no policy") + "\n" +
                 to_toml(request.cluster) + to_toml(request.profile));
    std::optional<Plan> plan;
    try {
      request.profile = with_estimates(request.profile, request.cluster, request.precision);
      plan = make_plan(request);
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()), "");
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    if (plan) expect_valid(request, *plan);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomRequests, testing::Range(0U, 60U));
// Plans of the search that did not fit, or predicted the memory of another plan.
INSTANTIATE_TEST_SUITE_P(Found, RandomRequests, testing::Values(202U, 262U, 335U, 446U, 557U));

}  // namespace random_requests_test
}  // namespace hetpipe
