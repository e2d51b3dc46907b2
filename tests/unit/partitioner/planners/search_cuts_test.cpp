// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../cases.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/planners/search.h"
#include "partitioner/planners/search_run.h"
#include "partitioner/planners/search_score.h"
#include "partitioner/planners/search_space.h"
#include "partitioner/profile/estimate.h"

namespace hetpipe {
namespace {

// Small micro-batches change which layers take most of the time, VGG-19's fully connected ones
// first. With cuts that were made for whole minibatches alone, four micro-batches that were asked
// for were worth 20 % more than those that were found.
TEST(SearchCuts, NoNumberOfMicroBatchesIsWorthMoreThanTheOneFound) {
  const std::string configs = std::string(HETPIPE_SOURCE_DIR) + "/cluster-configs";
  PlanRequest request;
  request.cluster = load_cluster(configs + "/hetpipe-paper.toml");
  request.profile = with_estimates(load_profile(configs + "/profiles/vgg19.toml"), request.cluster,
                                   Precision::fp32);
  request.minibatch = 32;
  request.system = "gpipe";
  request.search.systems = SystemChoice::requested;
  const double found = search_plans(request).worth;
  for (const int micro_batches : {2, 4, 8}) {
    request.micro_batches = micro_batches;
    EXPECT_LE(search_plans(request).worth, 1.01 * found) << micro_batches;
  }
}

// Four devices that hold a quarter of the model's layers with four micro-batches of eight samples,
// but not with sixteen of them.
PlanRequest full_devices(const std::string& system) {
  PlanRequest request;
  request.cluster = test::cluster_of({{"a", "a", "a", "a"}}, 0);
  request.profile = test::chain_of(12, {"a"}, [](const auto&) { return 10e-3; });
  for (Measurement& m : request.profile.change().measurements) {
    m.output_bytes.assign(12, 3'200'000);  // of 32 samples
    m.stash_bytes.assign(12, 32'000'000);
  }
  request.cluster.kinds[0].memory = 3 * 4 * 8'000'000 + 30'000'000;
  request.minibatch = 128;
  request.system = system;
  request.search.systems = SystemChoice::requested;
  return request;
}

// Pipelines with early backwards hold no more micro-batches than they have stages, however many a
// minibatch has: their cuts need not hold all of them. Where nothing is early all must fit.
TEST(SearchCuts, NeedWhatEarlyBackwardsHold) {
  for (const char* system : {"zero-bubble", "pipedream-flush", "dapple", "gpipe"}) {
    const PlanRequest request = full_devices(system);
    CutCache cuts;
    const std::vector<Packing> none;
    SearchSpace space(search_rows(request).front(), 128, cuts, none);
    Knobs knobs;
    knobs.micro_batches = 16;
    const auto plan = space.plan({request.cluster.devices()}, knobs);
    EXPECT_EQ(plan.has_value(), std::string(system) != "gpipe") << system;
    if (!plan) continue;
    EXPECT_TRUE(PlanScores(request.cluster, request.profile).fits(*plan)) << system;
  }
}

// Before, zero-bubble ran with the one depth that fits as a whole, if any did.
TEST(SearchCuts, ManyMicroBatchesOfLargeMinibatchesAreFound) {
  PlanRequest request = full_devices("zero-bubble");
  request.virtual_workers = 1;
  const SearchResult found = search_plans(request);
  EXPECT_GE(found.plan.micro_batches, 16);
  // 128 samples of twelve layers, 4 * 30 ms each of 32 samples, on four devices.
  EXPECT_GT(found.plan.predicted->throughput, 0.9 * 128 / (4 * 12 * 30e-3 / 4));
}

// Where the most slices do not fit, no others are tried one by one, but for the whole minibatch.
TEST(SearchCuts, AskOnceWhetherAnySlicesFit) {
  PlanRequest request = full_devices("gpipe");
  request.minibatch = 1024;
  CutCache cuts;
  const std::vector<Packing> none;
  SearchSpace space(search_rows(request).front(), 1024, cuts, none);
  EXPECT_GT(space.depths(64).size(), 6U);
  EXPECT_TRUE(depth_choices(space, {request.cluster.devices()}).empty());
  EXPECT_LE(cuts.partitions.size(), 2U);
}

}  // namespace
}  // namespace hetpipe
