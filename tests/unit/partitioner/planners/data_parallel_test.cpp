// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/data_parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "../cases.h"

namespace hetpipe {
namespace data_parallel_test {

struct Case {
  PlanRequest request;
  std::vector<double> seconds;  // of a sample, per device
};

Case random_case(std::mt19937& random) {
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  Case c;
  const int nodes = integer(1, 3);
  std::vector<std::vector<std::string>> names(static_cast<std::size_t>(nodes));
  const int devices = integer(nodes, 4);
  for (int d = 0; d < devices; ++d) {
    names[static_cast<std::size_t>(d < nodes ? d : integer(0, nodes - 1))].push_back(
        std::string(1, static_cast<char>('a' + integer(0, 2))));
  }
  c.request.system = "data-parallel";
  c.request.cluster = test::cluster_of(names, 1'000'000'000'000);
  c.request.cluster.intra_node = {integer(1, 20) * 1e5, integer(0, 3) * 1e-3, false};
  c.request.cluster.inter_node = {integer(1, 20) * 1e4, integer(0, 9) * 1e-3, false};
  const std::vector<double> slowness{1.0 * integer(1, 5), 1.0 * integer(1, 5),
                                     0.1 * integer(1, 50)};
  const int layers = integer(1, 4);
  c.request.profile = test::chain_of(layers, {"a", "b", "c"}, [&](const std::string& kind) {
    return 1e-3 * slowness[static_cast<std::size_t>(kind[0] - 'a')];
  });
  for (ProfileLayer& layer : c.request.profile.change().layers)
    layer.parameter_bytes = integer(0, 50) * 100;
  c.request.micro_batches = integer(1, 3);
  c.request.minibatch = *c.request.micro_batches * integer(devices, 14);
  for (const DeviceName& device : c.request.cluster.devices()) {
    const char kind = c.request.cluster.kind_of(device).name[0];
    c.seconds.push_back(3e-3 / 32 * layers * slowness[static_cast<std::size_t>(kind - 'a')]);
  }
  return c;
}

// The slowest device over every split of a micro-batch, each device with a sample at least.
double best_split(const std::vector<double>& seconds, std::size_t device, int samples) {
  if (device + 1 == seconds.size()) return samples * seconds[device];
  double best = 1e300;
  const int others = static_cast<int>(seconds.size() - device) - 1;
  for (int mine = 1; mine <= samples - others; ++mine) {
    best = std::min(
        best, std::max(mine * seconds[device], best_split(seconds, device + 1, samples - mine)));
  }
  return best;
}

TEST(DataParallelPlan, EqualToBruteForceOnRandomCases) {
  std::mt19937 random(23);
  int unequal = 0;
  for (int round = 0; round < 1000; ++round) {
    const Case c = random_case(random);
    const Cluster& cluster = c.request.cluster;
    const double n = static_cast<double>(c.seconds.size());
    double expected = *c.request.micro_batches *
                      best_split(c.seconds, 0, *c.request.minibatch / *c.request.micro_batches);
    if (n > 1) {
      double bytes = 0;
      for (const ProfileLayer& layer : c.request.profile->layers) {
        bytes += static_cast<double>(layer.parameter_bytes);
      }
      const Link& link = cluster.nodes.size() > 1 ? cluster.inter_node : cluster.intra_node;
      expected += 2 * (n - 1) / n * bytes / link.bandwidth + 2 * (n - 1) * link.latency;
    }
    const Plan plan = plan_data_parallel(c.request);
    ASSERT_NEAR(plan.predicted->bottleneck, expected, 1e-9 * expected) << "round " << round;
    const PlanStage& stage = plan.virtual_workers[0].stages[0];
    ASSERT_EQ(stage.devices.size(), c.seconds.size());
    unequal += !stage.shares.empty();
  }
  EXPECT_GT(unequal, 300);
}

// As Horovod: the same minibatch on every device, however fast it is.
TEST(DataParallelPlan, SharesMayBeEqual) {
  PlanRequest request;
  request.system = "data-parallel";
  request.cluster = test::cluster_of({{"a"}, {"b"}}, 1'000'000'000'000);
  request.profile =
      test::chain_of(3, {"a", "b"}, [](const auto& kind) { return kind == "a" ? 1.0 : 3.0; });
  const Plan by_speed = plan_data_parallel(request);
  EXPECT_EQ(by_speed.minibatch, 64);
  EXPECT_EQ(by_speed.virtual_workers[0].stages[0].shares, (std::vector<int>{48, 16}));
  request.equal_shares = true;
  const Plan equal = plan_data_parallel(request);
  EXPECT_EQ(equal.minibatch, 64);
  EXPECT_EQ(samples_of_replicas(equal.virtual_workers[0].stages[0], 64),
            (std::vector<int>{32, 32}));
}

}  // namespace data_parallel_test
}  // namespace hetpipe
