// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {
namespace measured_files_test {

// Files of runs measured on real clusters, where a checkout has them beside it.
TEST(MeasuredFiles, AllParseAndRoundTrip) {
  const auto folder =
      std::filesystem::path(HETPIPE_SOURCE_DIR).parent_path() / "shared/data/measured/sailor";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no measured runs at " << folder;
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.is_directory()) continue;
    ++cases;
    const Cluster cluster = load_cluster(entry.path() / "cluster.toml");
    const Profile profile = load_profile(entry.path() / "profile.toml");
    const Plan plan = load_plan(entry.path() / "plan.toml");
    check_plan(plan, "plan.toml", &cluster, static_cast<int>(profile.layers.size()));
    EXPECT_EQ(parse_cluster(to_toml(cluster), "again"), cluster) << entry.path();
    EXPECT_EQ(parse_profile(to_toml(profile), "again"), profile) << entry.path();
    EXPECT_EQ(parse_plan(to_toml(plan), "again"), plan) << entry.path();
  }
  EXPECT_GT(cases, 0);
}

}  // namespace measured_files_test
}  // namespace hetpipe
