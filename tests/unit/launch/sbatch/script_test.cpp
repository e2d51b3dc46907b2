// SPDX-License-Identifier: Apache-2.0
#include "launch/sbatch/script.h"
#include "launch/allocation/slurm.h"

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
  EXPECT_EQ(classes[2].gpus(), 0);
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
  EXPECT_TRUE(says("--signal=B:USR1@120"));
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
  job.classes = {{.nodes = {"a", "b"}, .gpus_of = {{"v100", 4}}}};
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

// Slurm 22.05 connects the ranks of a step only if the nodes of its components follow each other by
// name: with node10 before node9 they die in MPI_Init.
TEST(Script, ComponentsOfAHeterogeneousJobFollowTheNamesOfTheirNodes) {
  BatchJob job = ragged();
  job.shape = JobShape::heterogeneous;
  job.classes = node_classes({node("n10", {"titanv"}), node("n9", {"a100"}), node("n2")});
  std::vector<std::string> lines = directives(script_of(job));
  std::erase_if(lines, [](const std::string& line) {
    return !line.starts_with("--gres") && !line.starts_with("--nodelist");
  });
  EXPECT_EQ(lines, (std::vector<std::string>{"--nodelist=n2", "--gres=gpu:a100:1",
                                             "--gres=gpu:titanv:1"}));
  EXPECT_TRUE(nodes_out_of_order(job.classes).empty());
  job.classes = node_classes(
      {node("n1", {"titanv"}), node("n2", {"a100"}), node("n3", {"titanv"}), node("n4")});
  EXPECT_EQ(nodes_out_of_order(job.classes), (std::vector<std::string>{"n2"}));
}

// As `sinfo` lists a node with gpu:a100:1,gpu:titanv:1.
TEST(Script, OfNodesWithTwoTypesOfGpuAsksForBoth) {
  BatchJob job = ragged();
  job.classes = node_classes({node("n1", {"a100", "titanv"}), node("n2", {"titanv", "a100"}),
                              node("n3", {"a100", "a100"})});
  ASSERT_EQ(job.classes.size(), 2u);
  EXPECT_EQ(job.classes[0].nodes, (std::vector<std::string>{"n1", "n2"}));
  job.shape = JobShape::heterogeneous;
  job.threads = 2;
  const std::string script = script_of(job);
  const std::vector<std::string> lines = directives(script);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "--gres=gpu:a100:1,gpu:titanv:1"), 1);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "--gres=gpu:a100:2"), 1);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "--ntasks-per-node=2"), 2);
  EXPECT_TRUE(has(script, "--het-group=0-1 --cpus-per-task=2 "));
}

TEST(Script, QuotesEveryWord) {
  BatchJob job = ragged();
  job.name = "my $(touch X) run";
  job.folder = "/home/a b";
  job.more = {"--comment=it's"};
  const std::string script = script_of(job);
  EXPECT_TRUE(has(script, "#SBATCH '--job-name=my $(touch X) run'\n"));
  EXPECT_TRUE(has(script, "#SBATCH '--chdir=/home/a b'\n"));
  EXPECT_TRUE(has(script, "#SBATCH '--comment=it'\\''s'\n"));
  EXPECT_TRUE(has(script, "run='runs/my $(touch X) run'-$SLURM_JOB_ID "));
}

TEST(Script, InAContainerSeesTheFoldersOfTheJobAndTheNodesOfItsRanks) {
  BatchJob job = ragged();
  job.container = Container::apptainer;
  job.image = "my image.sif";
  job.mounted = {"/home/a", "/data"};
  std::string script = script_of(job);
  EXPECT_TRUE(has(script, "image='my image.sif' "));
  EXPECT_TRUE(has(script, "mounts=/home/a,/data\n"));
  EXPECT_TRUE(has(script,
                  "train=(apptainer exec --nv --pwd \"$PWD\" --bind \"$mounts\" "
                  "\"$image\" hetpipe train --cluster ranks --output"));
  EXPECT_TRUE(has(script, "\"$hetpipe\" allocation "));
  job.container = Container::pyxis;
  script = script_of(job);
  EXPECT_TRUE(has(script, "mounts=/home/a:/home/a,/data:/data\n"));
  EXPECT_TRUE(has(script, "train=(hetpipe train --cluster ranks --output"));
  EXPECT_TRUE(has(script, " --container-image=\"$image\" --container-mounts=\"$mounts\" "));
}

TEST(Script, SetupComesFirstAndIsNotEndedByASignal) {
  BatchJob job = ragged();
  job.setup = {"module load \"open mpi\"", "export A=1"};
  const std::string script = script_of(job);
  EXPECT_TRUE(has(script, "\n# By --setup.\nmodule load \"open mpi\"\nexport A=1\n\nset -u\n"));
  EXPECT_LT(script.find("trap 'stopping=yes' USR1"), script.find("# By --setup."));
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

TEST(SlurmTime, IsReadAsSbatchReadsIt) {
  for (const auto& [text, seconds] :
       std::vector<std::pair<std::string, std::int64_t>>{{"30", 1800},
                                                         {"30:15", 1815},
                                                         {"01:00:00", 3600},
                                                         {"2-3", 183600},
                                                         {"2-3:04", 183840},
                                                         {"2-3:04:05", 183845}}) {
    EXPECT_EQ(seconds_of_slurm_time(text), seconds) << text;
  }
  for (const char* text : {"", "banana", "1:", "1:2:3:4", "-1", "1-", "1-2-3", "1.5", " 1"}) {
    EXPECT_EQ(seconds_of_slurm_time(text), std::nullopt) << text;
  }
  EXPECT_GT(seconds_of_slurm_time("UNLIMITED"), 1'000'000'000);
}

TEST(Script, UnderMpirunHasAHostFileWithSlots) {
  BatchJob job = ragged();
  job.mpirun = true;
  const std::string script = script_of(job);
  EXPECT_TRUE(has(script, "--hosts \"$own/hosts\" --format openmpi"));
  EXPECT_TRUE(has(script, "mpirun --hostfile \"$own/hosts\""));
  EXPECT_FALSE(has(script, "srun --mpi"));
}

}  // namespace script_test
}  // namespace hetpipe
