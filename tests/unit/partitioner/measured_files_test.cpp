// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/text.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {
namespace {

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

// The peak memory of the fullest GPU against the ledger. The records of mit_N2_* contradict their
// own profile: less was measured than the activations of one micro-batch take.
TEST(MeasuredFiles, PeakMemory) {
  const auto folder =
      std::filesystem::path(HETPIPE_SOURCE_DIR).parent_path() / "shared/data/measured/sailor";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no measured runs at " << folder;
  std::ifstream file(folder / "measured.csv");
  std::string line;
  std::getline(file, line);  // case,iteration_seconds,gradient_sync_seconds,peak_memory_bytes,note
  double sum = 0;
  int cases = 0;
  while (std::getline(file, line)) {
    const auto columns = split(line, ',');
    if (columns[0].starts_with("mit_N2")) continue;
    const double measured = std::stod(columns[3]);
    const Cluster cluster = load_cluster(folder / columns[0] / "cluster.toml");
    const Profile profile = load_profile(folder / columns[0] / "profile.toml");
    const Plan plan = load_plan(folder / columns[0] / "plan.toml");
    std::int64_t fullest = 0;
    for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
      for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
        fullest = std::max(
            fullest, stage_ledger(plan, cluster, profile, VirtualWorkerId{static_cast<int>(vw)},
                                  StageId{static_cast<int>(k)})
                         .total());
      }
    }
    const double error = static_cast<double>(fullest) / measured - 1;
    std::printf("%-30s measured %5.2f GB, ledger %5.2f GB, %+5.1f %%\n", columns[0].c_str(),
                measured / 1e9, static_cast<double>(fullest) / 1e9, 100 * error);
    if (!columns[0].starts_with("clariden")) continue;
    sum += std::abs(error);
    ++cases;
  }
  ASSERT_EQ(cases, 7);
  EXPECT_LE(sum / cases, .05);
}

}  // namespace
}  // namespace hetpipe
