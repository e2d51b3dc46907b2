// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fstream>

#include "tests/fault/sound_input.h"

// `hetpipe train --resume`, as people and job scripts call it.
namespace hetpipe::test {
namespace resume_command_test {

namespace fs = std::filesystem;

class ResumeCommand : public SoundInput {
 protected:
  static constexpr const char* kOptions =
      " --epochs 3 --learning-rate 0.003 --momentum 0.5 --weight-decay 1e-4 --label-smoothing 0.1"
      " --ema 0.9 --nesterov --decay-of matrices --rate-of linear1=0.5 --clip-norm 2 --lr-schedule "
      "cosine "
      "--seed 7 --checkpoint-every 1 --trace off";

  // A run that was to end, and the same one stopped on its way.
  void SetUp() override {
    const Ran whole = train(with_output("whole") + kOptions);
    ASSERT_EQ(whole.code, 0) << whole.error;
    const Ran stopped = train(with_output("run") + kOptions + " --rehearse-preemption 2");
    ASSERT_EQ(stopped.code, 75) << stopped.error;
    ASSERT_GE(checkpoints().size(), 2u);
  }

  Ran train(const std::string& words) const { return hetpipe(words); }
  static std::string with_output(const std::string& folder) {
    std::string words = kTrain;
    return words.replace(words.find("--output run"), 12, "--output " + folder);
  }
  // Oldest first.
  std::vector<fs::path> checkpoints() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(file("run") / "checkpoints")) {
      if (entry.path().extension() == ".h5") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
  }
  static void flip_a_bit(const fs::path& path) {
    std::string bytes = read(path);
    bytes[bytes.size() / 2] ^= 4;
    write(path, bytes);
  }
  void expect_ended_like_the_whole() const {
    const Ran diff = hetpipe("checkpoint diff whole run --exact");
    EXPECT_EQ(diff.code, 0) << diff.out << diff.error;
  }
};

TEST_F(ResumeCommand, TakesTheRunsOptions) {
  for (const char* words :
       {"train --resume run", "train --resume --output run", "train --resume auto --output run"}) {
    SCOPED_TRACE(words);
    fs::copy(file("run"), file("stopped"), fs::copy_options::recursive);
    const Ran ran = train(words);
    EXPECT_EQ(ran.code, 0) << ran.error;
    EXPECT_NE(ran.out.find("bit for bit as if it had not stopped"), std::string::npos) << ran.out;
    EXPECT_EQ(ran.out.find("options changed"), std::string::npos) << ran.out;
    expect_ended_like_the_whole();
    fs::remove_all(file("run"));
    fs::rename(file("stopped"), file("run"));
  }
}

TEST_F(ResumeCommand, ListsWhatChangedAndPromisesNothingThen) {
  fs::copy(file("run"), file("stopped"), fs::copy_options::recursive);
  const Ran rate = train("train --resume run --learning-rate 0.01 --keep 9");
  EXPECT_EQ(rate.code, 0) << rate.error;
  EXPECT_NE(rate.out.find("options changed since: --learning-rate was 0.003, is 0.01; "
                          "--keep was 0, is 9\n"),
            std::string::npos)
      << rate.out;
  EXPECT_NE(rate.out.find("since it was trained with other options"), std::string::npos);
  EXPECT_EQ(rate.out.find("bit for bit"), std::string::npos);
  fs::remove_all(file("run"));
  fs::rename(file("stopped"), file("run"));

  const Ran keep = train("train --resume run --keep 9 --momentum 0.5");  // computes the same
  EXPECT_NE(keep.out.find("options changed since: --keep was 0, is 9\n"), std::string::npos)
      << keep.out;
  EXPECT_NE(keep.out.find("bit for bit"), std::string::npos);
  expect_ended_like_the_whole();
}

TEST_F(ResumeCommand, TheOptimizersOptionsCount) {
  for (const auto& [option, change] :
       {std::pair("--ema 0.8", "--ema was 0.9, is 0.8"),
        {"--nesterov=off", "--nesterov was on, is off"},
        {"--decay-of all", "--decay-of was matrices, is all"},
        {"--rate-of linear1=0.6", "--rate-of was linear1=0.5, is linear1=0.6"}}) {
    SCOPED_TRACE(option);
    fs::copy(file("run"), file("stopped"), fs::copy_options::recursive);
    const Ran ran = train(std::string("train --resume run ") + option);
    EXPECT_EQ(ran.code, 0) << ran.error;
    EXPECT_NE(ran.out.find(std::string("options changed since: ") + change), std::string::npos)
        << ran.out;
    EXPECT_NE(ran.out.find("since it was trained with other options"), std::string::npos);
    EXPECT_EQ(ran.out.find("bit for bit"), std::string::npos);
    fs::remove_all(file("run"));
    fs::rename(file("stopped"), file("run"));
  }
}

TEST_F(ResumeCommand, TheAverageOfTheWeightsIsExported) {
  const auto exported = [&](const std::string& words) {
    const Ran ran = hetpipe("checkpoint export run --force --output x.safetensors " + words);
    EXPECT_EQ(ran.code, 0) << ran.error;
    EXPECT_NE(ran.out.find("6 tensors"), std::string::npos) << ran.out;
    return read(file("x.safetensors"));
  };
  const std::string weights = exported(""), average = exported("--ema");
  EXPECT_EQ(weights.size(), average.size());
  EXPECT_NE(weights, average);
  ASSERT_EQ(hetpipe(with_output("plain")).code, 0);
  expect_refused("checkpoint export plain --ema --output y.npz",
                 {"--ema: ", "holds no average of the weights"});
}

TEST_F(ResumeCommand, ADamagedCheckpointIsPassedOver) {
  const fs::path newest = checkpoints().back();
  flip_a_bit(newest);
  const Ran ran = train("train --resume auto --output run");
  EXPECT_EQ(ran.code, 0) << ran.error;
  const std::string name = "run/checkpoints/" + newest.filename().string();
  EXPECT_NE(
      ran.error.find(name + " is damaged and was passed over; it is now " + name + ".damaged\n"),
      std::string::npos)
      << ran.error;
  EXPECT_NE(ran.error.find(name + ": was changed: "), std::string::npos) << ran.error;
  EXPECT_TRUE(fs::exists(newest.string() + ".damaged"));
  expect_ended_like_the_whole();
}

TEST_F(ResumeCommand, ARunWithoutAnIntactCheckpointIsNotWrittenOver) {
  for (const fs::path& path : checkpoints()) flip_a_bit(path);
  for (const char* words : {"train --resume run", "train --resume auto --output run"}) {
    expect_refused(
        words, {checkpoints().front().filename().string(), checkpoints().back().filename().string(),
                "run/checkpoints: holds no checkpoint that is intact"});
  }
}

TEST_F(ResumeCommand, WhatIsNoRunIsRefused) {
  expect_refused("train --resume nowhere", {"--resume: nowhere does not exist"});
  expect_refused("train --resume data", {"--resume: data is not the directory of a run"});
  std::ofstream(file("run") / "config.toml", std::ios::app) << "momentun = 1\n";
  expect_refused("train --resume run", {"run/config.toml:", "momentun", "momentum"});
}

// A folder with a checkpoint may belong to another program.
TEST_F(ResumeCommand, ACopiedCheckpointHasNoOptions) {
  fs::copy(checkpoints().back(), file("copy.h5"));
  write(file("config.toml"), "of = \"another program\"\n");
  const Ran ran = train(with_output("other") + " --seed 7 --epochs 3 --resume copy.h5");
  EXPECT_EQ(ran.code, 0) << ran.error;
}

// What stands beside the weights is read by others.
TEST_F(ResumeCommand, DamageElsewhereInACheckpointIsReported) {
  const fs::path newest = checkpoints().back();
  const std::string intact = read(newest);
  std::string bytes = intact;
  for (std::size_t at = bytes.size() / 2; at < bytes.size(); at += bytes.size() / 64) {
    bytes = intact;
    bytes[at] ^= 4;
    write(newest, bytes);
    const Ran verify = hetpipe("checkpoint verify " + newest.string());
    if (verify.error.find("dataset exact/") == std::string::npos) continue;
    const Ran exported = hetpipe("checkpoint export run --output x.npz");
    EXPECT_EQ(exported.code, 2);
    EXPECT_NE(exported.error.find("dataset exact/"), std::string::npos) << exported.error;
    EXPECT_NE(exported.error.find("What was exported is intact."), std::string::npos);
    EXPECT_TRUE(fs::exists(file("x.npz")));
    const Ran diff = hetpipe("checkpoint diff run run");
    EXPECT_EQ(diff.code, 2);
    EXPECT_NE(diff.error.find("dataset exact/"), std::string::npos) << diff.error;
    return;
  }
  FAIL() << "no byte of /exact was found";
}

}  // namespace resume_command_test
}  // namespace hetpipe::test
