// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/sound_input.h"

// Disks that are full from the start, or become so: said in words, never by a crash.
namespace hetpipe::test {
namespace full_disk_test {

namespace fs = std::filesystem;

class FullDisk : public SoundInput {
 protected:
  void SetUp() override {
    fs::create_directory(file("mnt"));
    if (mounted("1m", "true").code != 0) GTEST_SKIP() << "file systems cannot be mounted here";
  }
  // A shell command with a file system of that size at mnt, which nobody else sees.
  Ran mounted(const std::string& size, const std::string& command) const {
    return run(folder(), {"unshare", "-m", "sh", "-c",
                          "mount -t tmpfs -o size=" + size + " none mnt && " + command});
  }
  static std::string in_mnt(std::string arguments) {
    return arguments.replace(arguments.find("--output run"), 12, "--output mnt/run");
  }
};

TEST_F(FullDisk, AtTheStartTheFileIsNamed) {
  const std::string command = std::string(HETPIPE_COMMAND) + " " + in_mnt(kTrain);
  const Ran ran = mounted("4k", command);
  EXPECT_EQ(ran.code, 3) << ran.error;
  EXPECT_EQ(ran.error, "cannot write mnt/run/config.toml: write: No space left on device\n");
}

// Whatever comes first to find no room: configuration, log, links, traces, checkpoints.
TEST_F(FullDisk, OfAnySizeIsReportedInWords) {
  spoil("cluster.toml", "[link.inter_node]\n", "[link.inter_node]\nemulate = true\n");
  for (const char* size : {"4k", "8k", "12k", "16k", "20k", "24k", "28k", "36k", "64k", "300k"}) {
    SCOPED_TRACE(size);
    const Ran ran = mounted(size, std::string(MPIEXEC_COMMAND) + " --oversubscribe -n 3 " +
                                      HETPIPE_COMMAND + " " + in_mnt(kTrainMpi) + " --timeout 20");
    EXPECT_EQ(ran.code, 3) << ran.out << ran.error;
    EXPECT_NE(ran.error.find("No space left on device"), std::string::npos) << ran.error;
    for (const char* crash : {"signal", "Bus error", "terminate called", "internal error"}) {
      EXPECT_EQ(ran.error.find(crash), std::string::npos) << ran.error;
    }
  }
}

// There is room for the first checkpoints, not for all: training continues, and what was written
// stays.
TEST_F(FullDisk, DuringTheRunTrainingGoesOnAndCheckpointsStay) {
  const std::string train = std::string(HETPIPE_COMMAND) + " " + in_mnt(kTrain) +
                            " --checkpoint-every 1 --epochs 8 --trace off --timeout 10";
  const std::string verify = std::string(HETPIPE_COMMAND) + " checkpoint verify mnt/run";
  const Ran ran = mounted("4m", train + "; code=$?; " + verify + "; echo verified $?; exit $code");
  EXPECT_EQ(ran.code, 3) << "the end could not be saved";
  EXPECT_NE(ran.out.find("\nsummary:"), std::string::npos) << "trained to the end\n" << ran.out;
  EXPECT_NE(ran.error.find("No space left on device; the newest is mnt/run/checkpoints/"),
            std::string::npos)
      << ran.error;
  EXPECT_NE(ran.error.find("; training continues\n"), std::string::npos) << ran.error;
  EXPECT_NE(ran.error.find("the final state was not saved"), std::string::npos) << ran.error;
  EXPECT_NE(ran.out.find(": intact\n"), std::string::npos) << ran.out;
  EXPECT_EQ(ran.out.find("damaged"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("verified 0"), std::string::npos) << ran.out;
}

TEST_F(FullDisk, ALogThatCannotBeWrittenIsNoReasonToStop) {
  fs::create_directory(file("run"));
  const Ran ran = mounted("1m", "touch run/train.log && mount --bind /dev/full run/train.log && " +
                                    std::string(HETPIPE_COMMAND) + " " + kTrain);
  EXPECT_EQ(ran.code, 0) << ran.error;
  const std::string warning = "warning: cannot write to the log file (No space left on device)";
  const std::size_t at = ran.error.find(warning);
  EXPECT_NE(at, std::string::npos) << ran.error;
  EXPECT_EQ(ran.error.find(warning, at + 1), std::string::npos) << ran.error;
}

// Nor are files that others watch; each is warned of once, however often it is tried.
TEST_F(FullDisk, MetricsAndCurvesThatCannotBeWrittenAreNoReasonToStop) {
  const Ran ran =
      mounted("4k", "head -c 4096 /dev/zero > mnt/full && " + std::string(HETPIPE_COMMAND) + " " +
                        kTrain + " --metrics mnt/run.prom --tensorboard mnt/curves");
  EXPECT_EQ(ran.code, 0) << ran.error;
  for (const std::string file : {"mnt/run.prom: write", "mnt/curves/run/events.out.tfevents."}) {
    const std::string warning = "warning: cannot write " + file;
    const std::size_t at = ran.error.find(warning);
    EXPECT_NE(at, std::string::npos) << ran.error;
    EXPECT_EQ(ran.error.find(warning, at + 1), std::string::npos) << ran.error;
  }
}

}  // namespace full_disk_test
}  // namespace hetpipe::test
