// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/sound_input.h"

// --timeout is for ranks that are stuck: one that computes for longer is waited for, over MPI and
// in threads.
namespace hetpipe::test {
namespace patience_test {

class Patience : public SoundInput {
 protected:
  // One minibatch, with passes of up to 6 s; four times what a busy machine lets a rank wait for
  // one that computes nothing.
  void SetUp() override {
    spoil("cluster.toml", "emulate = { slowdown = 1.0 }", "emulate = { slowdown = 2.4e5 }");
    spoil("cluster.toml", "emulate = { slowdown = 2.0 }", "emulate = { slowdown = 4.8e5 }");
  }
  static constexpr const char* kShort = " --timeout 4 --epochs 0.25";
};

TEST_F(Patience, PassesThatOutlastTheTimeoutInThreads) {
  const Ran ran = hetpipe(std::string(kTrain) + kShort);
  EXPECT_EQ(ran.code, 0) << ran.out << ran.error;
}

TEST_F(Patience, PassesThatOutlastTheTimeoutOverMpi) {
  const Ran ran = mpirun(3, std::string(kTrainMpi) + kShort);
  EXPECT_EQ(ran.code, 0) << ran.out << ran.error;
}

}  // namespace patience_test
}  // namespace hetpipe::test
