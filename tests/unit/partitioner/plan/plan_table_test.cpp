// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/plan_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "../cases.h"
#include "partitioner/plan/placement.h"
#include "partitioner/planners/planner.h"

namespace hetpipe {
namespace plan_table_test {

using testing::HasSubstr;

struct Planned {
  Cluster cluster = test::cluster_of({{"fast", "slow"}, {"fast", "slow"}, {}}, 1'000'000'000);
  Profile profile = test::chain_of(9, {"fast", "slow"},
                                   [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  Plan plan;
  Planned() {
    PlanRequest request;
    request.cluster = cluster;
    request.profile = profile;
    request.policy = "np";
    request.in_flight = 3;
    request.clock_distance = 1;
    plan = plan_hetpipe(request);
  }
};

TEST(PlanTable, SaysWhatPeopleAskFor) {
  const Planned p;
  const std::string text = plan_table(p.plan, p.cluster, p.profile);
  for (const char* part :
       {"2 virtual workers, minibatch 32, 3 minibatches in flight (Nm)", "n0:0", "fast",
        "layer0..layer5", "layer6..layer8", "██████████ 100 %", "predicted throughput", "D = 1",
        "at most 2 updates", "and 7 of all", "shard 0 on n2: 9.0 kB in 9 layers"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(PlanTable, SaysThePrecisionOfPushesIfItIsNotTheUsualOne) {
  Planned p;
  EXPECT_THAT(plan_table(p.plan, p.cluster, p.profile),
              HasSubstr("parameter server, placement default:"));
  p.plan.server->push_precision = "bf16";
  EXPECT_THAT(plan_table(p.plan, p.cluster, p.profile),
              HasSubstr("parameter server, placement default, pushes in bf16:"));
}

TEST(PlanTable, ReplicasShareARow) {
  Planned p;
  p.plan.system = "gpipe";
  p.plan.server.reset();
  p.plan.virtual_workers.resize(1);
  p.plan.virtual_workers[0].stages.resize(2);
  p.plan.virtual_workers[0].stages[0].devices = {{"n0", 0}, {"n1", 1}};
  p.plan.virtual_workers[0].stages[1].devices = {{"n1", 0}};
  p.plan.virtual_workers[0].stages[0].end_layer = 6;
  p.plan.virtual_workers[0].stages[1].first_layer = 6;
  p.plan.micro_batches = 4;
  const std::string text = plan_table(p.plan, p.cluster, p.profile);
  for (const char* part : {"1 virtual worker, minibatch 32 in 4 micro-batches\n", "n0:0 n1:1",
                           "fast slow", "  2x4 "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  p.plan.virtual_workers[0].stages[0].shares = {5, 3};
  EXPECT_THAT(plan_table(p.plan, p.cluster, p.profile), HasSubstr("  5+3 "));
}

TEST(PlanTable, SaysUnequalMinibatches) {
  Planned p;
  EXPECT_THAT(plan_table(p.plan, p.cluster, p.profile), testing::Not(HasSubstr("samples  ")));
  p.plan.virtual_workers[1].minibatch = 48;
  const std::string text = plan_table(p.plan, p.cluster, p.profile);
  EXPECT_THAT(text, HasSubstr("  48 "));
  EXPECT_THAT(text, HasSubstr("  32 "));
}

TEST(PlanTable, SaysThePrecisionIfItIsNotTheUsualOne) {
  Planned p;
  EXPECT_THAT(plan_table(p.plan, p.cluster, p.profile), testing::Not(HasSubstr("fp32")));
  p.plan.precision = Precision::bf16;
  EXPECT_THAT(plan_table(p.plan, p.cluster, p.profile), HasSubstr("(Nm), in bf16\n"));
}

TEST(PlanTable, ManyVirtualWorkersThatAreAlikeShareTheirRows) {
  Planned p;
  std::vector<std::vector<std::string>> nodes(10, {"fast", "slow"});
  nodes.emplace_back();
  p.cluster = test::cluster_of(nodes, 1'000'000'000);
  PlanRequest request;
  request.cluster = p.cluster;
  request.profile = p.profile;
  request.policy = "np";
  request.in_flight = 3;
  p.plan = make_plan(request);
  // One of them is cut differently.
  auto& odd = p.plan.virtual_workers[4].stages;
  odd[0].end_layer = odd[1].first_layer = 5;
  const std::string text = plan_table(p.plan, p.cluster, p.profile);
  EXPECT_THAT(text, HasSubstr("0 ... 9 (9)      0  n0:0 ... n9:0 (9)"));
  EXPECT_THAT(text, HasSubstr("\n          4      0  n4:0"));
  EXPECT_THAT(text, testing::Not(HasSubstr("n3:0")));
}

TEST(PlanTable, SaysWhichDevicesItLeavesIdle) {
  Planned p;
  EXPECT_THAT(plan_table(p.plan, p.cluster, p.profile), testing::Not(HasSubstr("idle")));
  p.plan.virtual_workers.pop_back();
  EXPECT_THAT(plan_table(p.plan, p.cluster, p.profile),
              HasSubstr("idle: 2 of 4 devices: n1:0 n1:1\n"));
}

// Two virtual workers whose larger stage computes 18 ms (6 fast layers, 3 ms each): 64 samples in
// 18 ms are 3556 per second.
TEST(PlanTable, SaysWhereMostOfTheTimeIsWaiting) {
  Planned p;
  p.plan.predicted->throughput = 3400;
  EXPECT_THAT(plan_table(p.plan, p.cluster, p.profile), testing::Not(HasSubstr("waiting")));
  p.plan.predicted->throughput = 1778;
  EXPECT_THAT(plan_table(p.plan, p.cluster, p.profile),
              HasSubstr("(50 % of what the stages could compute; the rest is waiting"));
}

TEST(MemoryTable, StagesThatAreAlikeShareARow) {
  const Planned p;
  const std::string text = memory_table(p.plan, p.cluster, p.profile);
  for (const char* part :
       {"memory of", "weights", "wave updates", "n0:0 n1:0", "n0:1 n1:1", "1.0 GB", "%"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST(LedgerTable, ListsEveryLine) {
  const Planned p;
  const std::string text = ledger_table(p.plan, p.cluster, p.profile);
  for (const char* part :
       {"virtual worker 1, stage 0 on n1:", "weights", "wave updates", "total"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(LaunchLines, OneRankPerDeviceThenTheServers) {
  Planned p;
  EXPECT_EQ(mpirun_line(p.plan, p.cluster, "hetpipe train"),
            "mpirun -np 5 --host n0:2,n1:2,n2:1 hetpipe train");
  EXPECT_EQ(srun_line(p.plan, p.cluster, "hetpipe train"),
            "srun --mpi=pmix -K -n 5 -m arbitrary -w n0,n0,n1,n1,n2 hetpipe train");
  Planned even;
  even.plan.server.reset();
  EXPECT_EQ(srun_line(even.plan, even.cluster, "hetpipe train"),
            "srun --mpi=pmix -K -n 4 -w n0,n1 hetpipe train");
  p.cluster.kinds[0].emulate = Emulation{2};
  EXPECT_EQ(mpirun_line(p.plan, p.cluster, "hetpipe train"),
            "mpirun -np 5 --oversubscribe hetpipe train");
  EXPECT_EQ(srun_line(p.plan, p.cluster, "hetpipe train"), "srun --mpi=pmix -K -n 5 hetpipe train");
}

TEST(LaunchLines, SeveralThreadsWantAsManyCores) {
  Planned p;
  EXPECT_EQ(mpirun_line(p.plan, p.cluster, "hetpipe train", 2),
            "mpirun -np 5 --bind-to none --host n0:2,n1:2,n2:1 hetpipe train");
  EXPECT_EQ(srun_line(p.plan, p.cluster, "hetpipe train", 2),
            "srun --mpi=pmix -K -n 5 --cpus-per-task=2 --cpu-bind=cores -m arbitrary -w "
            "n0,n0,n1,n1,n2 hetpipe train");
}

TEST(ShardOfLayers, RoundRobinOverLayersWithParameters) {
  Planned p;
  p.plan.server->nodes = {"n0", "n1"};
  EXPECT_EQ(shard_of_layers(p.plan, std::vector<std::int64_t>{4, 0, 4, 4, 0, 4, 4, 4, 4}),
            (std::vector<int>{0, -1, 1, 0, -1, 1, 0, 1, 0}));
}

TEST(ShardOfLayers, LocalIsWhereTheStageIs) {
  Planned p;  // each virtual worker owns all layers on its own node: a tie, so the first
  p.plan.server->placement = "local";
  p.plan.server->nodes = {"n1", "n0"};
  const std::vector<std::int64_t> bytes(9, 4);
  EXPECT_EQ(shard_of_layers(p.plan, bytes), std::vector<int>(9, 0));
  std::swap(p.plan.virtual_workers[0].stages[1].devices,
            p.plan.virtual_workers[1].stages[1].devices);
  p.plan.virtual_workers.pop_back();  // stage 0 on n0, stage 1 on n1
  EXPECT_EQ(shard_of_layers(p.plan, bytes), (std::vector<int>{1, 1, 1, 1, 1, 1, 0, 0, 0}));
  p.plan.server->nodes = {"n2"};
  EXPECT_THAT(test::user_error([&] { shard_of_layers(p.plan, bytes); }),
              HasSubstr("placement 'local'"));
}

}  // namespace plan_table_test
}  // namespace hetpipe
