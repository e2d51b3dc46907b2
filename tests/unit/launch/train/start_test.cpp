// SPDX-License-Identifier: Apache-2.0
#include "launch/train/start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hetpipe {
namespace start_test {

using testing::HasSubstr;

TrainJob small_job(bool emulated) {
  TrainJob job;
  job.plan = parse_plan(
      "format = 1\nsystem = \"hetpipe\"\nmodel = \"mlp\"\nminibatch = 8\n[[virtual_worker]]\n"
      "[[virtual_worker.stage]]\nlayers = [0, 3]\ndevices = [\"a:0\"]\n"
      "[[virtual_worker.stage]]\nlayers = [3, 7]\ndevices = [\"b:0\"]\n"
      "[parameter_server]\nnodes = [\"b\"]\n",
      "plan.toml");
  job.cluster = parse_cluster(
      std::string("format = 1\n[device.d]\nmemory = 1000\n") +
          (emulated ? "emulate = { slowdown = 1.0 }\n" : "") +
          "[[node]]\nname = \"a,b\"\ndevices = [\"d\"]\n[link.intra_node]\nbandwidth = 1e9\n"
          "[link.inter_node]\nbandwidth = 1e9\n",
      "cluster.toml");
  return job;
}

// Ranks of hosts a, b, b with cores 0 and 1 each.
std::vector<RankFacts> three_ranks() {
  std::vector<RankFacts> facts;
  for (const char* host : {"a", "b", "b"}) {
    facts.push_back({.host = host,
                     .pid = 7,
                     .cores = {0, 1},
                     .online = 2,
                     .memory = 1,
                     .build = 5,
                     .boot = host,
                     .place = host,
                     .configuration = "epochs = 1\n"});
  }
  return facts;
}

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string together(const std::vector<RankFacts>& facts, const TrainJob& job) {
  return refusal([&] { check_together(facts, decide_roles(job, facts, "CMD"), job, "CMD"); });
}

TEST(CheckTogether, AnEmulatedClusterIsOneMachine) {
  std::vector<RankFacts> facts = three_ranks();
  EXPECT_EQ(together(facts, small_job(false)), "");
  EXPECT_THAT(together(facts, small_job(true)),
              HasSubstr("ranks 1 and 2 on b: not on the machine"));
  for (RankFacts& rank : facts) rank.boot = "one";
  EXPECT_EQ(together(facts, small_job(true)), "");
}

TEST(CheckTogether, AsManyCoresAsThreads) {
  std::vector<RankFacts> facts = three_ranks();
  TrainJob job = small_job(false);
  job.threads = 2;
  facts[2].cores = {1};  // a server's binding is nobody's business
  EXPECT_EQ(together(facts, job), "");
  facts[1].cores = {0};
  const std::string bound = together(facts, job);
  EXPECT_THAT(bound, HasSubstr("--threads: 2, and the launcher has bound rank 1 on b to 1 core ("));
  EXPECT_THAT(bound,
              HasSubstr("\n  mpirun -np 3 --bind-to none --host a:1,b:2 CMD\n  srun --mpi=pmix "
                        "-K -n 3 --cpus-per-task=2 --cpu-bind=cores -m arbitrary -w a,b,b CMD"));
  facts[1].cores = {0, 1};
  job.threads = 3;
  EXPECT_THAT(together(facts, job), HasSubstr("Give --threads 2 at most"));
}

TEST(SharedCores, AreWarnedOfUnlessEmulated) {
  std::vector<RankFacts> facts = three_ranks();
  for (RankFacts& rank : facts) rank.host = "a";
  facts[0].cores = facts[1].cores = {0};
  for (const bool emulated : {false, true}) {
    TrainJob job = small_job(emulated);
    const Roles roles = assign_roles(job.plan, {"a", "a", "a"}, Matching::plan_order);
    const std::string warning = shared_cores(facts, roles, job);
    EXPECT_EQ(warning, emulated
                           ? ""
                           : "2 worker threads on a share 1 cores (each device runs slower than "
                             "it would alone)");
  }
  facts[1].cores = {1};
  const TrainJob job = small_job(false);
  const Roles roles = assign_roles(job.plan, {"a", "a", "a"}, Matching::plan_order);
  EXPECT_EQ(shared_cores(facts, roles, job), "");
}

TEST(LinksWithoutTime, AreWarnedOfWhereDevicesAreEmulated) {
  const auto warning = [](TrainJob job) {
    const Roles roles = assign_roles(job.plan, {"a", "a", "a"}, Matching::plan_order);
    return links_without_time(job, roles);
  };
  EXPECT_EQ(warning(small_job(false)), "");
  TrainJob job = small_job(true);
  EXPECT_THAT(warning(job), HasSubstr("Add emulate = true to [link.inter_node] and "
                                      "[link.intra_node] to"));  // the server is on node b
  job.cluster->intra_node.emulate = true;
  EXPECT_THAT(warning(job), HasSubstr("Add emulate = true to [link.inter_node] to"));
  job.cluster->inter_node.emulate = true;
  EXPECT_EQ(warning(job), "");
}

TEST(UnlikeReplicas, AreWarnedOfWhereTheirUpdatesDiffer) {
  TrainJob job = small_job(false);
  PlanVirtualWorker& one = job.plan.virtual_workers[0];
  one.stages.resize(1);
  one.stages[0].end_layer = 7;
  PlanVirtualWorker other = one;
  other.stages[0].devices[0].node = "b";
  job.plan.virtual_workers.push_back(other);
  const Roles roles = assign_roles(job.plan, {"a", "a", "a"}, Matching::plan_order);
  std::vector<RankDevice> devices(3);
  devices[1].text = "NVIDIA H200";
  job.plan.optimizer = "muon";
  EXPECT_EQ(unlike_replicas(job, roles, devices), "");  // of two virtual workers
  job.plan.sync = "all-reduce";
  job.plan.server.reset();
  EXPECT_THAT(unlike_replicas(job, roles, devices),
              HasSubstr("differ in their last bits between NVIDIA H200 and cpu"));
  job.plan.optimizer = "adam";
  EXPECT_EQ(unlike_replicas(job, roles, devices), "");
  job.plan.optimizer = "muon";
  for (PlanVirtualWorker& worker : job.plan.virtual_workers) worker.stages[0].end_layer = 3;
  job.plan.virtual_workers[1].stages[0].first_layer = 3;
  job.plan.virtual_workers[1].stages[0].end_layer = 7;
  EXPECT_EQ(unlike_replicas(job, roles, devices), "");  // no layer is on both
  job.plan.virtual_workers[1].stages[0].first_layer = 2;
  EXPECT_THAT(unlike_replicas(job, roles, devices), HasSubstr("drift apart. Another"));
  devices[1].text = "cpu";
  EXPECT_EQ(unlike_replicas(job, roles, devices), "");
}

TEST(DecideRoles, HostsThatDoNotFitGetTheLaunchLines) {
  std::vector<RankFacts> facts = three_ranks();
  for (RankFacts& rank : facts) rank.host = "x";
  const std::string text = refusal([&] { decide_roles(small_job(false), facts, "CMD"); });
  EXPECT_THAT(text, HasSubstr("node 'a' has 1 workers"));
  EXPECT_THAT(text, HasSubstr("\n  mpirun -np 3 --host a:1,b:2 CMD\n"));
  EXPECT_EQ(refusal([&] { decide_roles(small_job(true), facts, "CMD"); }), "");
}

}  // namespace start_test
}  // namespace hetpipe
