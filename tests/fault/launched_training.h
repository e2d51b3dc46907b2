// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "launched_job.h"
#include "small_training.h"
#include "tests/main/patience.h"

namespace hetpipe::fault {

// Empty where nobody has written it yet.
inline std::string contents(const std::filesystem::path& file) {
  return std::filesystem::exists(file) ? read_file(file) : "";
}

// Small trainings under mpirun, with all that they write in a folder of the test's own.
class LaunchedTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              format("hetpipe-fault-%d-%s", ::getpid(),
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
    write_files(folder_);
  }
  void TearDown() override {
    if (!HasFailure()) std::filesystem::remove_all(folder_);
  }

  // Longer than anything is waited for here.
  static double never() { return test::patience(60); }

  // One server, two virtual workers of two stages, unless another shape is named; `run` is the run
  // directory's name, `timeout` how long ranks wait for each other.
  std::vector<std::string> launch(const std::string& run, double timeout,
                                  const std::vector<std::string>& more = {},
                                  Shape shape = Shape::one_server) const {
    std::vector<std::string> words{MPIEXEC_COMMAND, "--oversubscribe", "-n",
                                   std::to_string(ranks(shape))};
    for (const auto& part :
         {train_words(HETPIPE_COMMAND, folder_, shape, output(run), timeout), more}) {
      words.insert(words.end(), part.begin(), part.end());
    }
    return words;
  }
  std::filesystem::path output(const std::string& run) const { return folder_ / run; }
  std::filesystem::path said() const { return folder_ / "said"; }
  std::string log(const std::string& run) const { return contents(output(run) / "train.log"); }
  bool training_begins(const std::string& run) const {
    return test::comes_true([&] { return log(run).find("\nwave ") != std::string::npos; }, 30);
  }

  std::filesystem::path folder_;
};

}  // namespace hetpipe::fault
