// SPDX-License-Identifier: Apache-2.0
#include "runtime/store/checkpoint_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"

namespace hetpipe {
namespace {

// Waiting heals a full disk, but not numbers that are not finite.
TEST(CheckpointWriter, DoesNotTryAgainWhatCannotBeMade) {
  std::atomic<int> tries = 0;
  CheckpointWriter writer({.folder = std::filesystem::temp_directory_path(),
                           .keep = 0,
                           .retry_seconds = 60,
                           .waiting_bytes = 1 << 20});
  writer.write(
      3, 1,
      [&]() -> Checkpoint {
        ++tries;
        throw NumericalError("parameter a/weight holds nan");
      },
      CheckpointWriter::Which::last);
  std::vector<CheckpointWriter::Result> results;
  for (int i = 0; i < 500 && results.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    results = writer.take_results();
  }
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].fate, CheckpointWriter::Fate::failed);
  EXPECT_EQ(results[0].text, "parameter a/weight holds nan");
  EXPECT_TRUE(results[0].last);
  EXPECT_EQ(tries, 1);
}

}  // namespace
}  // namespace hetpipe
