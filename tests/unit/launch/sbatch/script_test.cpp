// SPDX-License-Identifier: Apache-2.0
#include "launch/sbatch/script.h"

#include <gtest/gtest.h>

namespace hetpipe {
namespace script_test {

AllocatedNode node(std::string name, std::vector<std::string> gpus = {}) {
  return {.name = std::move(name), .gpus = std::move(gpus), .features = {}, .answers = true};
}

BatchJob ragged() {
  BatchJob job;
  job.shape = JobShape::whole_nodes;
  job.classes = node_classes(
      {node("c"), node("n1", {"titanv"}), node("n3", {"a100", "a100"}), node("n2", {"titanv"})});
  job.least_nodes = 2;
  job.most_nodes = 4;
  job.train = {"--model", "lenet", "--data", "my data"};
  return job;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Lines that sbatch reads, in their order.
std::vector<std::string> directives(const std::string& script) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; (start = script.find("#SBATCH ", start)) != std::string::npos;) {
    const std::size_t end = script.find('\n', start);
    lines.push_back(script.substr(start + 8, end - start - 8));
    start = end;
  }
  return lines;
}

TEST(NodeClasses, AlikeTogetherThoseWithGpusFirst) {
  const std::vector<NodeClass> classes = ragged().classes;
  ASSERT_EQ(classes.size(), 3U);
  EXPECT_EQ(classes[0].nodes, std::vector<std::string>({"n1", "n2"}));
  EXPECT_EQ(classes[1].ranks(), 2);
  EXPECT_EQ(classes[2].gpus, 0);
  EXPECT_EQ(classes[2].ranks(), 1);
}

TEST(Script, OfWholeNodes) {
  const std::string script = script_of(ragged());
  EXPECT_TRUE(script.starts_with("#!/bin/bash\n"));
  const std::vector<std::string> lines = directives(script);
  const auto says = [&](const std::string& line) {
    return std::count(lines.begin(), lines.end(), line) == 1;
  };
  EXPECT_TRUE(says("--requeue"));
  EXPECT_TRUE(says("--signal=USR1@120"));
  EXPECT_TRUE(says("--open-mode=append"));
  EXPECT_TRUE(says("--nodes=2-4"));
  EXPECT_TRUE(says("--exclusive"));
  EXPECT_TRUE(has(script, "--distribution=arbitrary"));
  EXPECT_TRUE(has(script, "unset CUDA_VISIBLE_DEVICES"));
  EXPECT_TRUE(has(script, "'my data'"));
}

TEST(Script, OfNodesThatAreAlikeAsksForTheirGpus) {
  BatchJob job = ragged();
  job.shape = JobShape::alike;
  job.classes = {{.nodes = {"a", "b"}, .gpus = 4, .type = "v100"}};
  job.least_nodes = 1;
  job.most_nodes = 2;
  const std::string script = script_of(job);
  EXPECT_TRUE(has(script, "#SBATCH --gres=gpu:v100:4\n"));
  EXPECT_TRUE(has(script, "#SBATCH --ntasks-per-node=4\n"));
  EXPECT_FALSE(has(script, "--exclusive"));
}

TEST(Script, OfAHeterogeneousJobHasAComponentForEachClass) {
  BatchJob job = ragged();
  job.shape = JobShape::heterogeneous;
  const std::vector<std::string> lines = directives(script_of(job));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "hetjob"), 2);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "--time=01:00:00"), 3);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "--gres=gpu:a100:2"), 1);
  EXPECT_TRUE(has(script_of(job), "--het-group=0-2"));
}

TEST(Script, OfAnArrayHasASeedAndARunDirectoryForEachTask) {
  BatchJob job = ragged();
  job.array = "0-4";
  job.output = "runs/five";
  const std::string script = script_of(job);
  EXPECT_TRUE(has(script, "#SBATCH --array=0-4\n"));
  EXPECT_TRUE(has(script, "--seed \"$SLURM_ARRAY_TASK_ID\""));
  EXPECT_TRUE(has(script, "run=runs/five-$SLURM_ARRAY_TASK_ID "));
}

TEST(Script, UnderMpirunPassesTheSignalOnItself) {
  BatchJob job = ragged();
  job.mpirun = true;
  const std::string script = script_of(job);
  EXPECT_TRUE(has(script, "#SBATCH --signal=B:USR1@120\n"));
  EXPECT_TRUE(has(script, "mpirun --hostfile \"$run/hosts\""));
  EXPECT_FALSE(has(script, "srun --mpi"));
}

}  // namespace script_test
}  // namespace hetpipe
