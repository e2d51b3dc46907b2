// SPDX-License-Identifier: Apache-2.0
#include "launch/allocation/slurm.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace hetpipe {
namespace slurm_test {

using Types = std::vector<std::string>;

TEST(GpuTypes, OfEveryFormThatSlurmWrites) {
  EXPECT_EQ(gpu_types("gpu:titanv:1"), Types({"titanv"}));
  EXPECT_EQ(gpu_types("gpu:a100:2(IDX:0-1)"), Types({"a100", "a100"}));
  EXPECT_EQ(gpu_types("gpu:4"), Types(4, ""));
  EXPECT_EQ(gpu_types("gpu"), Types({""}));
  EXPECT_EQ(gpu_types("gpu:v100:1(S:0,2),gpu:k80:2(S:1)"), Types({"v100", "k80", "k80"}));
  EXPECT_EQ(gpu_types("craynetwork:4,gpu:a100:1,shard:8"), Types({"a100"}));
  EXPECT_EQ(gpu_types("gpu:titanv"), Types({"titanv"}));
  EXPECT_EQ(gpu_types("(null)"), Types());
  EXPECT_EQ(gpu_types(""), Types());
}

// As Slurm 22.05 wrote it of an exclusive job on four nodes, shortened.
constexpr const char* kJob =
    "JobId=2 JobName=j.sh NodeList=node[1-4] BatchHost=node1 NumNodes=4 NumCPUs=18 "
    "TRES=cpu=18,mem=18000M,node=4 JOB_GRES=gpu:titanv:2,gpu:a100:2   Nodes=node[1-2] CPU_IDs=0-3 "
    "Mem=4000 GRES=gpu:titanv:1(IDX:0)   Nodes=node3 CPU_IDs=0-7 Mem=8000 GRES=gpu:a100:2(IDX:0-1)"
    "   Nodes=node4 CPU_IDs=0-1 Mem=2000 GRES=(null) MinCPUsNode=1 Power= \n";

TEST(GivenGpus, ByNode) {
  const std::vector<GivenGpus> given = given_gpus(kJob);
  ASSERT_EQ(given.size(), 4U);
  EXPECT_EQ(given[0].node, "node1");
  EXPECT_EQ(given[0].types, Types({"titanv"}));
  EXPECT_EQ(given[1].node, "node2");
  EXPECT_EQ(given[2].types, Types({"a100", "a100"}));
  EXPECT_EQ(given[3].node, "node4");
  EXPECT_TRUE(given[3].types.empty());
}

TEST(GivenGpus, OfAllComponentsOfAHeterogeneousJob) {
  const std::vector<GivenGpus> given = given_gpus(
      "JobId=6 HetJobId=6 Nodes=2 NumCPUs=2   Nodes=n[1-2] CPU_IDs=3 Mem=1 GRES=gpu:k80:1(IDX:0)\n"
      "JobId=7 HetJobId=6 Nodes=1 NumCPUs=1   Nodes=n7 CPU_IDs=0 Mem=1 GRES=\n");
  ASSERT_EQ(given.size(), 3U);
  EXPECT_EQ(given[1].node, "n2");
  EXPECT_EQ(given[2].node, "n7");
  EXPECT_TRUE(given[2].types.empty());
}

TEST(DescribedNodes, FeaturesAndWhoAnswers) {
  const std::vector<AllocatedNode> nodes = described_nodes(
      "NodeName=a1 Arch=x86_64 AvailableFeatures=sm70,old ActiveFeatures=sm70 Gres=gpu:titanv:2 "
      "State=ALLOCATED ThreadsPerCore=1\n"
      "NodeName=a2 ActiveFeatures=(null) Gres=(null) State=DOWN+NOT_RESPONDING Reason=off\n"
      "NodeName=a3 ActiveFeatures=(null) Gres=(null) State=ALLOCATED* \n");
  ASSERT_EQ(nodes.size(), 3U);
  EXPECT_EQ(nodes[0].features, Types({"sm70"}));
  EXPECT_EQ(nodes[0].gpus, Types({"titanv", "titanv"}));
  EXPECT_TRUE(nodes[0].answers);
  EXPECT_FALSE(nodes[1].answers);
  EXPECT_TRUE(nodes[1].features.empty());
  EXPECT_FALSE(nodes[2].answers);
}

TEST(ListedNodes, OfAPartition) {
  constexpr const char* kSinfo =
      "node1|all*|gpu:titanv:1|titanv,sm70|idle\nnode3|all*|gpu:a100:2(S:0)|(null)|mixed\n"
      "node3|fast|gpu:a100:2(S:0)|(null)|mixed\nnode9|all*|(null)|cpu|down*\n";
  const std::vector<AllocatedNode> usual = listed_nodes(kSinfo, "");
  ASSERT_EQ(usual.size(), 2U);
  EXPECT_EQ(usual[0].name, "node1");
  EXPECT_EQ(usual[1].gpus, Types({"a100", "a100"}));
  EXPECT_EQ(listed_nodes(kSinfo, "fast").size(), 1U);
  EXPECT_EQ(listed_nodes(kSinfo, "all").size(), 2U);
  EXPECT_TRUE(listed_nodes(kSinfo, "none").empty());
}

TEST(SlurmAllocation, OutsideOfAJobIsAMistake) {
  ::unsetenv("SLURM_JOB_ID");
  try {
    slurm_allocation();
    FAIL() << "an allocation without a job";
  } catch (const UserError& error) {
    EXPECT_EQ(error.problems().front().where, "--cluster");
  }
}

}  // namespace slurm_test
}  // namespace hetpipe
