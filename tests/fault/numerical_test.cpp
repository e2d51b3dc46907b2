// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/sound_input.h"

// Numbers that run away: exit code 4, one line that names step, layer, virtual worker, stage and
// rank, and checkpoints that stay good.
namespace hetpipe::test {
namespace numerical_test {

struct Runaway {
  const char* name;
  const char* optimizer;
  const char* first_stage;   // layers
  const char* second_stage;  // empty: one stage
  const char* rank;          // that finds the layer, which may be an earlier one than the loss's
  const char* stage;
};

class Numerical : public SoundInput, public testing::WithParamInterface<Runaway> {};

TEST_P(Numerical, NamesTheFirstLayerThatFailed) {
  const Runaway& run = GetParam();
  const bool two = *run.second_stage != '\0';
  spoil("plan.toml", "layers = [0, 3]", std::string("layers = ") + run.first_stage);
  if (two) {
    spoil("plan.toml", "layers = [3, 7]", std::string("layers = ") + run.second_stage);
  } else {
    spoil("plan.toml", "[[virtual_worker.stage]]\nlayers = [3, 7]\ndevices = [\"n0:1\"]\n", "");
  }
  const int ranks = two ? 3 : 2;
  const std::string train = std::string(kTrainMpi) + " --optimizer " + run.optimizer;
  // A sound beginning, then a rate that nothing survives.
  const Ran sound = mpirun(ranks, train + " --epochs 1");
  ASSERT_EQ(sound.code, 0) << sound.error;
  const auto checkpoints = content_of(file("run/checkpoints"));
  ASSERT_EQ(checkpoints.size(), 1u);

  const Ran ran = mpirun(ranks, train + " --resume --epochs 20 --learning-rate 1e6");
  EXPECT_EQ(ran.code, 4) << ran.out << ran.error;
  const std::string line =
      " of virtual worker 0: the loss is not a finite number. The first "
      "non-finite number, in the order of computation, is at stage ";
  const std::size_t at = ran.error.find(line);
  ASSERT_NE(at, std::string::npos) << ran.error;
  EXPECT_EQ(ran.error.find(line, at + 1), std::string::npos) << ran.error;
  const std::size_t start = ran.error.rfind('\n', at) + 1;
  const std::string said = ran.error.substr(start, ran.error.find('\n', at) - start);
  EXPECT_NE(said.find(std::string("rank ") + run.rank + " on "), std::string::npos) << said;
  EXPECT_NE(said.find("step "), std::string::npos) << said;
  EXPECT_NE(said.find(std::string("is at stage ") + run.stage + ": "), std::string::npos) << said;
  EXPECT_NE(said.find("layer linear"), std::string::npos) << said;
  EXPECT_NE(said.find("Lower --learning-rate"), std::string::npos) << said;

  for (const auto& [path, hash] : checkpoints) {
    EXPECT_EQ(content_of(file("run/checkpoints")).at(path), hash) << path;
  }
  const std::string first = checkpoints.begin()->first;
  const Ran again =
      mpirun(ranks, train + " --resume " + first + " --epochs 2 --learning-rate 0.001");
  EXPECT_EQ(again.code, 0) << again.error;
}

INSTANTIATE_TEST_SUITE_P(
    Runs, Numerical,
    testing::Values(Runaway{"OneStage", "sgd", "[0, 7]", "", "0", "0"},
                    Runaway{"LastOfTwoStages", "sgd-momentum", "[0, 3]", "[3, 7]", "1", "1"},
                    Runaway{"FirstOfTwoStages", "sgd", "[0, 6]", "[6, 7]", "0", "0"}),
    [](const auto& at) { return at.param.name; });

}  // namespace numerical_test
}  // namespace hetpipe::test
