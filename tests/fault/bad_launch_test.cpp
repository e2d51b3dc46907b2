// SPDX-License-Identifier: Apache-2.0
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "tests/fault/sound_input.h"
#include "tests/main/patience.h"

// Launches in which the ranks do not fit the plan, the machine or each other: all leave together,
// before anything is written, and the first of them says what to type instead.
namespace hetpipe::test {
namespace bad_launch_test {

namespace fs = std::filesystem;

class BadLaunch : public SoundInput {
 protected:
  // Under mpirun too: one report in all, no file touched.
  void expect_all_refuse(const std::string& applications,
                         const std::vector<std::string>& words) const {
    SCOPED_TRACE("mpirun " + applications);
    const auto before = content_of(folder());
    expect_refused(mpirun(applications), words);
    EXPECT_EQ(content_of(folder()), before);
  }
  static std::string with(std::string arguments, const std::string& from, const std::string& to) {
    return arguments.replace(arguments.find(from), from.size(), to);
  }
  void own_hosts();  // a cluster of this machine, not emulated
};

void BadLaunch::own_hosts() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string name = host;
  spoil("cluster.toml", "emulate = { slowdown = 1.0 }\n", "");
  spoil("cluster.toml", "emulate = { slowdown = 2.0 }\n", "");
  spoil("cluster.toml", "\"n0\"", "\"" + name + "\"");
  spoil("plan.toml", "n0:0", name + ":0");
  spoil("plan.toml", "n0:1", name + ":1");
  const std::string profile = read(file("profile.toml"));
  const std::string measured = profile.substr(profile.find("[[measurement]]"));
  write(file("profile.toml"),
        with(profile, "\"cpu\"", "\"fast\"") + with(measured, "\"cpu\"", "\"slow\""));
}

TEST_F(BadLaunch, BadInputIsReportedOnce) {
  const std::string train = kTrainMpi;
  expect_all_refuse("-n 3 HETPIPE " + with(train, "--data data", "--data nowhere"),
                    {"nowhere: does not exist"});
  expect_all_refuse("-n 3 HETPIPE " + train + " --ephocs 2", {"unknown option '--ephocs'"});
  spoil("plan.toml", "layers = [3, 7]", "layers = [4, 7]");
  expect_all_refuse("-n 3 HETPIPE " + train, {"plan.toml:12: ", "Start at 3"});
  spoil("plan.toml", "layers = [4, 7]", "layers = [3, 7]");
  spoil("cluster.toml", "memory = 1_000_000_000", "memory = 1_000");
  expect_all_refuse("-n 3 HETPIPE " + train, {"stage 1 needs", "which has 1.0 kB"});
  spoil("cluster.toml", "memory = 1_000", "memory = 1_000_000_000");
  write(file("taken"), "mine");
  expect_all_refuse("-n 3 HETPIPE " + with(train, "--output run", "--output taken"),
                    {"--output taken: cannot be written"});
  write(file("data/train-labels-idx1-ubyte"), idx_labels(60));
  expect_all_refuse("-n 3 HETPIPE " + train, {"holds 60 labels", "64 images"});
}

TEST_F(BadLaunch, ANumberOfRanksThatThePlanDoesNotHave) {
  for (const int ranks : {1, 2, 4}) {
    expect_all_refuse("-n " + std::to_string(ranks) + " HETPIPE " + kTrainMpi,
                      {"the plan needs 3 ranks", "launch has " + std::to_string(ranks),
                       "\n  mpirun -np 3 --oversubscribe ", "\n  srun --mpi=pmix -K -n 3 "});
  }
  // Started by hand.
  expect_refused(kTrainMpi, {"the plan needs 3 ranks", "launch has 1", "\n  mpirun -np 3 "});
}

TEST_F(BadLaunch, RanksWithoutACommonWorld) {
  const auto before = content_of(folder());
  const std::string command = std::string(HETPIPE_COMMAND) + " " + kTrainMpi;
  const auto as = [&](const std::string& environment) {
    return run(folder(), words_of("env " + environment + " " + command));
  };
  expect_refused(as("PMI_RANK=0 PMI_SIZE=3"),
                 {"mpiexec of another MPI started 3 ranks, and MPI sees 1", "Open MPI",
                  "\n  mpirun -np 3 " + command, "\n  srun --mpi=pmix -K -n 3 " + command});
  expect_refused(as("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3"),
                 {"mpirun started 3 ranks, and MPI sees 1"});
  // Open MPI would end such a process before it can say anything.
  expect_refused(as("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=3 SLURM_JOB_ID=1 SLURM_STEP_ID=0"),
                 {"srun started 3 ranks without PMIx", "\n  srun --mpi=pmix -K -n 3 " + command});
  // The others leave it to the first to speak.
  const Ran other = as("PMI_RANK=1 PMI_SIZE=3");
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(other.error, "");
  EXPECT_EQ(content_of(folder()), before);
}

TEST_F(BadLaunch, MixedBuilds) {
  fs::copy_file(HETPIPE_COMMAND, file("other-build"));
  std::ofstream(file("other-build"), std::ios::app) << "x";
  const std::string train = kTrainMpi;
  expect_all_refuse(
      "-n 2 HETPIPE " + train + " : -n 1 " + file("other-build").string() + " " + train,
      {"rank 2 on ", "another build of hetpipe", "Install the same build"});
}

TEST_F(BadLaunch, OtherOptionsOnSomeRanks) {
  const std::string train = kTrainMpi;
  fs::copy_file(file("plan.toml"), file("other.toml"));
  expect_all_refuse("-n 1 HETPIPE " + train + " : -n 2 HETPIPE " + train + " --epochs 2",
                    {"ranks 1 and 2 on ", "--epochs 2 (rank 0 with --epochs 1)"});
  expect_all_refuse("-n 2 HETPIPE " + train + " : -n 1 HETPIPE " +
                        with(train, "--plan plan.toml", "--plan other.toml"),
                    {"rank 2 on ", "--plan \"other.toml\" (rank 0 with --plan \"plan.toml\")"});
}

TEST_F(BadLaunch, OtherDataOnSomeRanks) {
  fs::copy(file("data"), file("other"));
  write(file("other/train-labels-idx1-ubyte"), idx_labels(64, 3));
  write(file("other/t10k-labels-idx1-ubyte"), idx_labels(16, 3));
  const std::string train = kTrainMpi;
  const auto mixed = [&](const std::string& data) {
    return "-n 1 HETPIPE " + train + " : -n 1 HETPIPE " + with(train, "--data data", data) +
           " : -n 1 HETPIPE " + train;
  };
  expect_all_refuse(mixed("--data other"),
                    {"rank 1 on ", "--data other: has different train samples"});
  expect_all_refuse(mixed("--data nowhere"), {"rank 1 on ", "nowhere: does not exist"});
  // The same files in another place are the same data.
  fs::copy(file("data"), file("same"));
  const Ran ran = mpirun(mixed("--data same"));
  EXPECT_EQ(ran.code, 0) << ran.error;
}

TEST_F(BadLaunch, HostsThatTheClusterDoesNotName) {
  own_hosts();
  spoil("cluster.toml", "[[node]]\nname = \"s0\"",
        "[[node]]\nname = \"elsewhere\"\n"
        "devices = [\"fast\", \"slow\"]\n[[node]]\nname = \"s0\"");
  std::string plan = read(file("plan.toml"));
  for (const char* device : {":0\"", ":1\""}) {
    const std::size_t end = plan.find(device);
    const std::size_t start = plan.rfind('"', end) + 1;
    plan.replace(start, end - start, "elsewhere");
  }
  write(file("plan.toml"), plan);
  expect_all_refuse("-n 3 HETPIPE " + std::string(kTrainMpi),
                    {"node 'elsewhere' has 2 workers", "started 0 ranks there",
                     "\n  mpirun -np 3 --host elsewhere:2,s0:1 ",
                     "\n  srun --mpi=pmix -K -n 3 -m arbitrary -w elsewhere,elsewhere,s0 "});
}

TEST_F(BadLaunch, MoreThreadsThanCores) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const std::string train = kTrainMpi;
  expect_all_refuse("-n 3 HETPIPE " + train + " --threads " + std::to_string(cores + 1),
                    {"--threads: " + std::to_string(cores + 1), "ranks 0 and 1 on ",
                     "Give --threads " + std::to_string(cores) + " at most"});
  expect_refused(std::string(kTrain) + " --threads " + std::to_string(cores + 1),
                 {"Give --threads " + std::to_string(cores) + " at most"});
  if (cores < 2) GTEST_SKIP() << "one core: nothing can be bound to fewer";
  const auto before = content_of(folder());
  const Ran bound =
      mpirun("--bind-to core:overload-allowed -n 3 HETPIPE " + train + " --threads 2");
  if (bound.error.find("--threads") == std::string::npos && bound.code != 0) {
    GTEST_SKIP() << "ranks cannot be bound here: " << bound.error;
  }
  // Where a core has two hardware threads it holds two threads of a rank.
  if (bound.code == 0) GTEST_SKIP() << "a core of this machine has several hardware threads";
  expect_refused(bound, {"--threads: 2", "has bound ranks 0 and 1 on ", " to 1 core ",
                         "\n  mpirun -np 3 --bind-to none --oversubscribe ",
                         "\n  srun --mpi=pmix -K -n 3 --cpus-per-task=2 --cpu-bind=cores "});
  EXPECT_EQ(content_of(folder()), before);
}

TEST_F(BadLaunch, WorkersThatShareCoresAreWarnedOfUnlessEmulated) {
  const std::string train = kTrain;
  EXPECT_EQ(hetpipe(train).error.find("share"), std::string::npos);
  fs::remove_all(file("run"));
  own_hosts();
  cpu_set_t one;
  cpu_set_t all;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const Ran ran = mpirun(3, kTrainMpi);
  ::sched_setaffinity(0, sizeof all, &all);
  EXPECT_EQ(ran.code, 0) << ran.error;
  EXPECT_NE(ran.error.find("warning: 2 worker threads on "), std::string::npos) << ran.error;
}

TEST_F(BadLaunch, ARunDirectoryInUse) {
  // A process of this test holds the lock as a run does.
  ASSERT_EQ(hetpipe(kTrain).code, 0);
  const std::string train = kTrainMpi;
  const std::string holder = std::string(HETPIPE_COMMAND) + " " + kTrain +
                             " --resume --epochs 20000 > holder.out 2>&1 & echo $!";
  const Ran started = run(folder(), {"sh", "-c", holder});
  const pid_t pid = std::stoi(started.out);
  EXPECT_TRUE(comes_true([&] {
    return read(file("holder.out")).find("run directory") != std::string::npos;
  })) << read(file("holder.out"));
  const Ran ran = mpirun(3, train + " --resume --epochs 20000");
  ::kill(pid, SIGKILL);
  EXPECT_NE(ran.error.find("--output run: is in use by another run (process " +
                           std::to_string(pid) + " on "),
            std::string::npos)
      << ran.error << read(file("holder.out"));
  expect_refused(ran, {"Wait for it to end"});
}

}  // namespace bad_launch_test
}  // namespace hetpipe::test
