// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/checkpoint.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "base/error.h"
#include "runtime/store/checkpoint_format.h"
#include "tests/unit/data/scratch_folder.h"
#include "tests/unit/store/sample_checkpoint.h"

namespace hetpipe {
namespace store_checkpoint_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Checkpoint, ReadsBackWhatWasWritten) {
  const ScratchFolder folder;
  const Checkpoint checkpoint = sample_checkpoint();
  write_checkpoint(folder / "a.h5", checkpoint);
  EXPECT_EQ(read_checkpoint(folder / "a.h5"), checkpoint);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a.h5"});
}

// As builds wrote them that did not count the minibatches of one virtual worker.
TEST(Checkpoint, ReadsFilesWithoutAWorkersMinibatches) {
  const ScratchFolder folder;
  Checkpoint checkpoint = sample_checkpoint();
  EXPECT_EQ(checkpoint.minibatches_of_worker(), 1179);
  checkpoint.worker_minibatches.reset();
  write_checkpoint(folder / "a.h5", checkpoint);
  EXPECT_EQ(read_checkpoint(folder / "a.h5"), checkpoint);
  EXPECT_EQ(read_checkpoint(folder / "a.h5").minibatches_of_worker(), 1178);
}

TEST(Checkpoint, ReadsBackSpecialValuesBitForBit) {
  const ScratchFolder folder;
  using Limits = std::numeric_limits<float>;
  Checkpoint checkpoint;
  checkpoint.parameters = {
      {"a/weight",
       {5},
       {-0.0f, Limits::denorm_min(), Limits::infinity(), Limits::max(), Limits::quiet_NaN()},
       ""},
      {"b/empty", {0, 3}, {}, ""},
      {"c/scalar", {}, {2.5f}, ""}};
  checkpoint.slots["velocity"];
  write_checkpoint(folder / "a.h5", checkpoint);
  Checkpoint back = read_checkpoint(folder / "a.h5");
  ASSERT_EQ(back.parameters.size(), 3u);
  ASSERT_EQ(back.parameters[0].values.size(), 5u);
  EXPECT_EQ(std::memcmp(back.parameters[0].values.data(), checkpoint.parameters[0].values.data(),
                        5 * sizeof(float)),
            0);
  EXPECT_EQ(back.parameters[1], checkpoint.parameters[1]);
  EXPECT_EQ(back.parameters[2], checkpoint.parameters[2]);
}

TEST(Checkpoint, ExactStateIsLeftOutWhenNotAskedFor) {
  const ScratchFolder folder;
  Checkpoint checkpoint = sample_checkpoint();
  write_checkpoint(folder / "a.h5", checkpoint);
  checkpoint.exact.reset();
  EXPECT_EQ(read_checkpoint(folder / "a.h5", WithExact::no), checkpoint);
}

TEST(Checkpoint, OutlineHasShapesAndNoValues) {
  const ScratchFolder folder;
  Checkpoint checkpoint = sample_checkpoint();
  write_checkpoint(folder / "a.h5", checkpoint);
  checkpoint_format::for_each_tensor(
      checkpoint, [](const std::string&, NamedTensor& tensor) { tensor.values.clear(); });
  EXPECT_EQ(read_checkpoint_outline(folder / "a.h5"), checkpoint);
}

TEST(Checkpoint, IntactIsVerified) {
  const ScratchFolder folder;
  write_checkpoint(folder / "a.h5", sample_checkpoint());
  EXPECT_TRUE(verify_checkpoint(folder / "a.h5").empty());
}

TEST(Checkpoint, ExactStateMayBeEmptyOrMissing) {
  const ScratchFolder folder;
  Checkpoint checkpoint = sample_checkpoint();
  for (const auto& exact : {std::optional<ExactState>(), std::optional(ExactState{})}) {
    checkpoint.exact = exact;
    write_checkpoint(folder / "a.h5", checkpoint);
    EXPECT_EQ(read_checkpoint(folder / "a.h5"), checkpoint);
  }
}

TEST(Checkpoint, ExactStateMayHoldManyNumbers) {
  const ScratchFolder folder;
  Checkpoint checkpoint = sample_checkpoint();
  for (int i = 0; i < 1000; ++i) {
    checkpoint.exact->numbers["worker-0/stage-" + std::to_string(i) + "/label"] = i;
  }
  write_checkpoint(folder / "a.h5", checkpoint);
  EXPECT_EQ(read_checkpoint(folder / "a.h5"), checkpoint);
}

TEST(Checkpoint, TensorsAreSortedByName) {
  const ScratchFolder folder;
  const Checkpoint sorted = sample_checkpoint();
  Checkpoint shuffled = sorted;
  std::reverse(shuffled.parameters.begin(), shuffled.parameters.end());
  write_checkpoint(folder / "a.h5", shuffled);
  EXPECT_EQ(read_checkpoint(folder / "a.h5"), sorted);
}

TEST(Checkpoint, ReplacesAnOlderOneOfThatName) {
  const ScratchFolder folder;
  Checkpoint checkpoint = sample_checkpoint();
  write_checkpoint(folder / "a.h5", checkpoint);
  checkpoint.label = 13;
  checkpoint.parameters.pop_back();
  write_checkpoint(folder / "a.h5", checkpoint);
  EXPECT_EQ(read_checkpoint(folder / "a.h5"), checkpoint);
}

TEST(Checkpoint, SeveralThreadsWriteAndReadAtOnce) {
  const ScratchFolder folder;
  std::vector<std::thread> ranks;
  std::vector<int> equal(4, 0);
  for (std::size_t rank = 0; rank < equal.size(); ++rank) {
    ranks.emplace_back([&, rank] {
      Checkpoint checkpoint = sample_checkpoint();
      for (int turn = 0; turn < 5; ++turn) {
        checkpoint.label = static_cast<Label>(100 * rank) + turn;
        const fs::path path = folder / checkpoint_name(checkpoint.label);
        write_checkpoint(path, checkpoint);
        equal[rank] += read_checkpoint(path) == checkpoint;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(equal, (std::vector<int>{5, 5, 5, 5}));
}

TEST(Checkpoint, NoSpaceLeavesTheOldFileAndNoOther) {
  const ScratchFolder folder;
  const Checkpoint old = sample_checkpoint();
  write_checkpoint(folder / "a.h5", old);
  Checkpoint larger = old;
  larger.parameters = {sample_tensor("conv1/weight", {512, 256}, "in,out")};

  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // the write fails instead
  rlimit small = before;
  small.rlim_cur = 100'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string text =
      error_of<SystemError>([&] { write_checkpoint(folder / "a.h5", larger); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);

  EXPECT_THAT(text, HasSubstr("a.h5"));
  EXPECT_THAT(text, HasSubstr("File too large"));
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a.h5"});
  EXPECT_EQ(read_checkpoint(folder / "a.h5"), old);
  write_checkpoint(folder / "a.h5", larger);  // once there is room again
  EXPECT_EQ(read_checkpoint(folder / "a.h5"), larger);
}

TEST(Checkpoint, MissingFolderIsTheMachinesFailure) {
  const ScratchFolder folder;
  const fs::path path = folder / "none/a.h5";
  EXPECT_THAT(error_of<SystemError>([&] { write_checkpoint(path, sample_checkpoint()); }),
              HasSubstr(path.string()));
}

class CheckpointFolder : public ::testing::Test {
 protected:
  void write(Label label) {
    Checkpoint checkpoint = sample_checkpoint();
    checkpoint.label = label;
    write_checkpoint(folder_ / checkpoint_name(label), checkpoint);
  }
  void write_text(const std::string& name) { write_plain(folder_ / name, "not a checkpoint"); }

  ScratchFolder folder_;
};

TEST_F(CheckpointFolder, NewestIsTheHighestLabel) {
  EXPECT_EQ(newest_checkpoint(folder_.path()), std::nullopt);
  EXPECT_EQ(newest_checkpoint(folder_ / "none"), std::nullopt);
  for (Label label : {3, 123456789, 20}) write(label);
  EXPECT_EQ(newest_checkpoint(folder_.path()), folder_ / "checkpoint-123456789.h5");
}

TEST_F(CheckpointFolder, NewestIsComplete) {
  write(3);
  write_text("checkpoint-00000004.h5");
  write_text("checkpoint-x.h5");
  EXPECT_EQ(newest_checkpoint(folder_.path()), folder_ / "checkpoint-00000003.h5");
}

TEST_F(CheckpointFolder, PruneKeepsTheNewest) {
  for (Label label : {1, 2, 3, 4}) write(label);
  write_text("checkpoint-00000005.h5.tmp.77");
  write_text("notes.txt");
  prune_checkpoints(folder_.path(), 2);
  EXPECT_EQ(
      names_in(folder_.path()),
      (std::vector<std::string>{"checkpoint-00000003.h5", "checkpoint-00000004.h5", "notes.txt"}));
}

TEST_F(CheckpointFolder, PruneNeverRemovesTheOnlyCompleteOne) {
  write(1);
  write_text("checkpoint-00000002.h5");
  write_text("checkpoint-00000003.h5");
  prune_checkpoints(folder_.path(), 1);
  EXPECT_EQ(newest_checkpoint(folder_.path()), folder_ / "checkpoint-00000001.h5");
  EXPECT_EQ(names_in(folder_.path()).size(), 3u);
}

}  // namespace store_checkpoint_test
}  // namespace hetpipe
