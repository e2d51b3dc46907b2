// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/fault/command.h"

// A folder with everything that a training needs, all of it sound, for tests that spoil one thing.
namespace hetpipe::test {

class SoundInput : public testing::Test {
 protected:
  SoundInput();
  ~SoundInput() override;

  std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  const std::filesystem::path& folder() const { return folder_; }

  // Replaces the one place of a file that holds `from`.
  void spoil(const std::string& name, const std::string& from, const std::string& to);
  int line_of(const std::string& name, const std::string& text) const;  // from 1

  // `hetpipe ARGUMENTS`, with little memory and time: what is refused must not have cost much.
  Ran hetpipe(const std::string& arguments) const;
  Ran mpirun(int ranks, const std::string& arguments) const;
  Ran mpirun(const std::string& applications) const;  // as mpirun takes them, HETPIPE replaced

  // Exit code 2, one report that holds every one of `words` and nothing of a crash, and not a file
  // made, changed or lost.
  void expect_refused(const std::string& arguments, const std::vector<std::string>& words) const;
  void expect_refused(const Ran& ran, const std::vector<std::string>& words) const;

  // hetpipe train with the sound files; threads of one process.
  static constexpr const char* kTrain =
      "train --plan plan.toml --cluster cluster.toml --profile profile.toml --data data "
      "--transport threads --output run";
  static constexpr const char* kTrainMpi =
      "train --plan plan.toml --cluster cluster.toml --profile profile.toml --data data "
      "--output run";
  static constexpr const char* kPlan =
      "plan --cluster cluster.toml --profile profile.toml --output made.toml";

 private:
  std::filesystem::path folder_;
};

// IDX files of `count` samples, 8 x 8, labels 0 to 3 in turn.
std::string idx_images(int count, int side = 8);
std::string idx_labels(int count, int classes = 4);

}  // namespace hetpipe::test
