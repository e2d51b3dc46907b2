// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "../cases.h"
#include "partitioner/plan/plan_table.h"
#include "partitioner/planners/planner.h"

namespace hetpipe {
namespace {

// Every cluster file of the project is read, planned and survives its own text.
TEST(ClusterConfigs, AllLoadAndPlan) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(HETPIPE_SOURCE_DIR) / "cluster-configs")) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    SCOPED_TRACE(entry.path().string());
    PlanRequest request;
    request.cluster = load_cluster(entry.path());
    EXPECT_EQ(parse_cluster(to_toml(request.cluster), "again"), request.cluster);
    std::vector<std::string> kinds{"cpu"};
    for (const DeviceKind& kind : request.cluster.kinds) {
      if (!kind.emulate) kinds.push_back(kind.name);
    }
    // Faster by peak, where the file gives one.
    request.profile = test::chain_of(24, kinds, [&](const std::string& name) {
      for (const DeviceKind& kind : request.cluster.kinds) {
        if (kind.name == name && kind.peak_flops > 0) return 1e10 / kind.peak_flops;
      }
      return 1e-3;
    });
    const Plan plan = plan_hetpipe(request);
    check_plan(plan, "plan", &request.cluster, 24);
    EXPECT_GT(plan.predicted->throughput, 0);
    EXPECT_NE(plan_table(plan, request.cluster, request.profile), "");
    for (const char* policy : {"np", "ed", "hd"}) {
      request.policy = policy;
      EXPECT_GT(plan_hetpipe(request).predicted->throughput, 0) << policy;
    }
  }
  EXPECT_GE(files, 3);
}

}  // namespace
}  // namespace hetpipe
