// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/checkpoint_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "tests/main/patience.h"

namespace hetpipe {
namespace checkpoint_writer_test {

namespace fs = std::filesystem;
using Fate = CheckpointWriter::Fate;
using Which = CheckpointWriter::Which;

class CheckpointWriterTest : public testing::Test {
 protected:
  CheckpointWriterTest()
      : folder_(fs::temp_directory_path() / format("hetpipe-checkpoint-writer-%d", ::getpid())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~CheckpointWriterTest() override { fs::remove_all(folder_); }

  static Checkpoint at(Label label) {
    Checkpoint checkpoint;
    checkpoint.model = "m";
    checkpoint.label = label;
    checkpoint.optimizer = "sgd";
    checkpoint.parameters = {{"layer/weight", {2}, {1.0f, static_cast<float>(label)}, ""}};
    return checkpoint;
  }
  static std::vector<CheckpointWriter::Result> all_results(CheckpointWriter& writer,
                                                           std::size_t count) {
    std::vector<CheckpointWriter::Result> results;
    test::comes_true([&] {
      for (auto& result : writer.take_results()) results.push_back(std::move(result));
      return results.size() >= count;
    });
    return results;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  fs::path folder_;
};

TEST_F(CheckpointWriterTest, WritesInOrderAndKeepsTheNewest) {
  CheckpointWriter writer({.folder = folder_, .keep = 2});
  for (Label label = 1; label <= 5; ++label) {
    writer.write(
        label, 8, [label] { return at(label); }, label == 5 ? Which::last : Which::one_of_many);
  }
  const auto results = all_results(writer, 5);
  ASSERT_EQ(results.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(results[i].label, static_cast<Label>(i + 1));
    EXPECT_EQ(results[i].fate, Fate::written) << results[i].text;
    EXPECT_EQ(results[i].last, i == 4);
  }
  EXPECT_EQ(files(), (std::vector<std::string>{checkpoint_name(4), checkpoint_name(5)}));
  EXPECT_EQ(read_checkpoint(results[4].text), at(5));
}

// Training never waits; what does not fit in memory any more gives way, the oldest first.
TEST_F(CheckpointWriterTest, LeavesOutTheOldestThatWaits) {
  CheckpointWriter writer({.folder = folder_, .waiting_bytes = 100});
  std::promise<void> go;
  std::shared_future<void> gate(go.get_future());
  std::promise<void> begun;
  writer.write(
      1, 60,
      [&] {
        begun.set_value();
        gate.wait();
        return at(1);
      },
      Which::one_of_many);
  begun.get_future().wait();
  for (Label label = 2; label <= 4; ++label) {
    writer.write(
        label, 60, [label] { return at(label); }, label == 4 ? Which::last : Which::one_of_many);
  }
  go.set_value();
  const auto results = all_results(writer, 4);
  std::map<Label, Fate> fates;
  for (const auto& result : results) fates[result.label] = result.fate;
  EXPECT_EQ(fates,
            (std::map<Label, Fate>{
                {1, Fate::written}, {2, Fate::left_out}, {3, Fate::left_out}, {4, Fate::written}}));
}

TEST_F(CheckpointWriterTest, AFailureIsReportedAndTheLastOneIsTriedAgain) {
  const fs::path missing = folder_ / "not-there-yet";
  CheckpointWriter writer({.folder = missing, .retry_seconds = test::patience(10)});
  writer.write(
      1, 8, [] { return at(1); }, Which::one_of_many);
  const auto failed = all_results(writer, 1);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].fate, Fate::failed);
  EXPECT_EQ(failed[0].code, ExitCode::system);
  EXPECT_NE(failed[0].text.find("not-there-yet"), std::string::npos) << failed[0].text;

  writer.write(
      2, 8, [] { return at(2); }, Which::last);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(writer.idle());
  fs::create_directories(missing);
  const auto written = all_results(writer, 1);
  ASSERT_EQ(written.size(), 1u);
  EXPECT_EQ(written[0].fate, Fate::written);
}

TEST_F(CheckpointWriterTest, TheLastOneIsGivenUpInTheEnd) {
  CheckpointWriter writer({.folder = folder_ / "never", .retry_seconds = 0.1});
  writer.write(
      7, 8, [] { return at(7); }, Which::last);
  const auto results = all_results(writer, 1);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].fate, Fate::failed);
  EXPECT_TRUE(results[0].last);
}

// Waiting heals a full disk, but not numbers that are not finite.
TEST_F(CheckpointWriterTest, DoesNotTryAgainWhatCannotBeMade) {
  std::atomic<int> tries = 0;
  CheckpointWriter writer({.folder = folder_, .retry_seconds = test::patience(10)});
  writer.write(
      3, 1,
      [&]() -> Checkpoint {
        ++tries;
        throw NumericalError("parameter a/weight holds nan");
      },
      Which::last);
  const auto results = all_results(writer, 1);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].fate, Fate::failed);
  EXPECT_EQ(results[0].text, "parameter a/weight holds nan");
  EXPECT_EQ(results[0].code, ExitCode::numerical);
  EXPECT_EQ(tries, 1);
}

}  // namespace checkpoint_writer_test
}  // namespace hetpipe
