// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "tests/fault/sound_input.h"

// A GPU is asked for where there is none: exit code 3 with the loader's or the driver's reason.
// "auto" computes on the CPU there, and says so.
namespace hetpipe::test {
namespace fault_device_test {

using testing::HasSubstr;

class WithoutGpu : public SoundInput {
 protected:
  void SetUp() override {
    const Ran version = command("--version");
    if (version.out.find(" GPUs\n") != std::string::npos) GTEST_SKIP() << "this machine has a GPU";
  }
  // Without SoundInput's limit of memory: a GPU's libraries are large.
  Ran command(const std::string& arguments) const {
    std::vector<std::string> words = words_of(arguments);
    words.insert(words.begin(), HETPIPE_COMMAND);
    return run(folder(), words);
  }
};

TEST_F(WithoutGpu, CudaEndsWithTheReason) {
  const Ran profile = command(
      "profile --model lenet --sample 28x28x1 --classes 10 --minibatch 2 --device cuda --output p");
  EXPECT_EQ(profile.code, 3);
  EXPECT_THAT(profile.error, HasSubstr("device cuda: "));
  const auto before = content_of(folder());
  const Ran train = command(std::string(kTrain) + " --device cuda");
  EXPECT_EQ(train.code, 3);
  EXPECT_THAT(train.error, HasSubstr("device cuda: "));
  EXPECT_EQ(content_of(folder()), before);
}

TEST_F(WithoutGpu, AutoTakesTheCpuAndSaysWhy) {
  const Ran train =
      command("train --plan plan.toml --data data --transport threads --output run --device auto");
  EXPECT_EQ(train.code, 0) << train.error;
  EXPECT_THAT(train.out, HasSubstr("device auto: ranks 0, 1 on the CPU ("));
}

TEST_F(WithoutGpu, APrecisionThatIsNotThePlansOrTheCpusIsSaid) {
  const Ran train = command(
      "train --plan plan.toml --data data --transport threads --output run --device auto "
      "--precision bf16");
  EXPECT_EQ(train.code, 0) << train.error;
  EXPECT_THAT(train.error, HasSubstr("--precision bf16: plan.toml was planned for fp32"));
  EXPECT_THAT(train.error, HasSubstr("ranks 0, 1 compute in fp32 (a CPU has no other precision); "
                                     "the plan is for bf16"));
}

// Emulated at the CPU's pace they are where they belong.
TEST_F(WithoutGpu, NothingIsSaidOfKindsThatTheCpuEmulates) {
  const Ran train = command(kTrain);
  EXPECT_EQ(train.code, 0) << train.error;
  EXPECT_EQ(train.out.find("device auto"), std::string::npos);
}

}  // namespace fault_device_test
}  // namespace hetpipe::test
