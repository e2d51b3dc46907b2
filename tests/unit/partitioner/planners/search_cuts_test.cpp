// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "partitioner/cluster/cluster.h"
#include "partitioner/planners/search.h"
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

}  // namespace
}  // namespace hetpipe
