// SPDX-License-Identifier: Apache-2.0
#include "tests/fault/sound_input.h"

// What is typed wrongly: each named with its option, before anything is done.
namespace hetpipe::test {
namespace bad_options_test {

using BadOptions = SoundInput;

TEST_F(BadOptions, EveryNumberRefusesWhatIsAbsurd) {
  struct Option {
    std::string name;
    bool whole;
    bool may_be_zero;
  };
  const std::string planned =
      "train --cluster cluster.toml --profile profile.toml --data data "
      "--transport threads --output run";
  const std::vector<std::pair<std::string, std::vector<Option>>> kCommands{
      {planned,
       {{"--epochs", false, false},
        {"--learning-rate", false, false},
        {"--momentum", false, true},
        {"--weight-decay", false, true},
        {"--epsilon", false, false},
        {"--ema", false, false},
        {"--timeout", false, false},
        {"--seed", true, true},
        {"--threads", true, false},
        {"--evaluate-every", true, true},
        {"--checkpoint-every", true, true},
        {"--in-flight", true, false},
        {"--minibatch", true, false},
        {"--virtual-workers", true, false},
        {"--clock-distance", true, true}}},
      {kPlan,
       {{"--in-flight", true, false},
        {"--minibatch", true, false},
        {"--virtual-workers", true, false},
        {"--clock-distance", true, true}}},
      {"profile --model mlp --sample 8x8x1 --classes 4 --output made.toml",
       {{"--minibatch", true, false}, {"--threads", true, false}}},
      {"probe --device cpu --output made.toml",
       {{"--seconds", false, false}, {"--threads", true, false}}},
  };
  for (const auto& [command, options] : kCommands) {
    for (const Option& option : options) {
      std::vector<std::string> values{
          "-1", "1e300", "nan", "inf", "-inf", "ten", "99999999999999999999", "1;2", "0x10"};
      if (!option.may_be_zero) values.push_back("0");
      if (option.whole) values.push_back("1.5");
      for (const std::string& value : values) {
        expect_refused(command + " " + option.name + " " + value,
                       {option.name + ": '" + value + "'"});
      }
      expect_refused(command + " " + option.name + "=", {option.name + ": needs a value"});
      if (option.name != "--seed") {
        // In a file a mistake has a line.
        write(file("run.toml"), "format = 1\n" + option.name.substr(2) + " = -1\n");
        expect_refused(command + " --config run.toml", {"run.toml:2: " + option.name.substr(2)});
        std::filesystem::remove(file("run.toml"));
      }
    }
  }
}

TEST_F(BadOptions, LargeNumbersThatAreAllowedCostNothingEither) {
  const Ran ran = hetpipe(std::string(kTrain) +
                          " --epochs 1000000 --seed 9223372036854775807 --rehearse-preemption 2");
  EXPECT_EQ(ran.code, 75) << ran.out << ran.error;
  EXPECT_NE(ran.out.find("wave    2/"), std::string::npos) << ran.out;
}

TEST_F(BadOptions, WhatIsUnknownIsNamedWithTheNearest) {
  write(file("run.toml"), "format = 1\nepochs = 1\nlearning_rate = 0.1\n");
  write(file("two.toml"), "format = 2\n");
  write(file("none.toml"), "");
  const std::string train = kTrain;
  const std::vector<std::pair<std::string, std::vector<std::string>>> kCases{
      {"trian --plan plan.toml", {"unknown subcommand 'trian'", "'train'"}},
      {train + " --ephocs 3", {"unknown option '--ephocs'", "'--epochs'"}},
      {train + " --epochs=3 extra", {"unexpected argument 'extra'"}},
      {train + " --epochs", {"--epochs: needs a value"}},
      {train + " --device gpu", {"--device: ", "'gpu'", "cpu, cuda, reference"}},
      {train + " --trace maybe", {"--trace: 'maybe'", "Give on or off"}},
      {train + " --config run.toml", {"run.toml:3: ", "'learning_rate'", "'learning-rate'"}},
      {train + " --config two.toml", {"two.toml:1: ", "format = 1 is known"}},
      {train + " --config none.toml", {"none.toml:1: format is missing"}},
      {train + " --config nowhere.toml", {"nowhere.toml: cannot be read"}},
      {train + " --config data", {"data: is a folder"}},
      {train + " --in-flight 2", {"--in-flight: cannot be combined with --plan"}},
      {train + " --model lenet", {"plan.toml: is a plan of model 'mlp'", "'lenet'"}},
      {train + " --optimizer adma", {"--optimizer: ", "'adma'", "adam, adamw, lamb"}},
      {train + " --betas 0.9", {"--betas: are not two numbers below 1"}},
      {train + " --betas 0.9,1", {"--betas: are not two numbers below 1"}},
      {train + " --betas 0.9,x", {"--betas: "}},
      {train + " --betas 0.9,0.99 --epsilon 1e-6 --decay-of all",
       {"--betas: has no effect with optimizer sgd-momentum",
        "--epsilon: has no effect with optimizer sgd-momentum",
        "--decay-of: has no effect with a weight decay of 0"}},
      {train + " --optimizer adam --momentum 0.9 --nesterov",
       {"--momentum: has no effect with optimizer adam",
        "--nesterov: has no effect with optimizer adam"}},
      {train + " --nesterov --momentum 0", {"--nesterov: has no effect with --momentum 0"}},
      {train + " --ema 1", {"--ema: of 1 never changes", "below 1"}},
      {train + " --decay-of vectors",
       {"--decay-of: unknown value 'vectors' (known: matrices, all)"}},
      {train + " --rate-of linear*=0", {"--rate-of: 'linear*=0'", "above 0", "PATTERN=FACTOR"}},
      {train + " --rate-of linear", {"--rate-of: 'linear'", "PATTERN=FACTOR"}},
      {train + " --rate-of linear1=2,lineal1=3",
       {"--rate-of: 'lineal1' matches no parameter of model 'mlp'"}},
      {"train", {"--data: is missing"}},
      {"train --data data --plan plan.toml --resume", {"--resume: does not say what to resume"}},
      {"train --data data", {"--cluster: is missing", "--model: is missing"}},
      {"train --data data --plan nowhere.toml --output run", {"nowhere.toml: cannot be read"}},
      {"plan --cluster cluster.toml", {"--profile: is missing"}},
      {"plan --profile profile.toml", {"--cluster: is missing"}},
      {"profile", {"--model: is missing"}},
      {"profile --model lenett --data data --output made.toml",
       {"unknown model 'lenett'", "'lenet'"}},
      {"profile --model mlp --sample 8x8 --classes 4 --output made.toml", {"--sample: '8x8'"}},
      {"profile --model mlp --sample 0x8x1 --classes 4 --output made.toml", {"--sample: '0x8x1'"}},
      {"profile --model mlp --sample 99999999x8x1 --classes 4 --output made.toml",
       {"--sample: '99999999x8x1'"}},
      {"profile --model lenet --sample 1x1x1 --classes 4 --output made.toml", {"model 'lenet'"}},
      {"profile --model lenet --sample 65536x65536x65536 --classes 4 --output made.toml",
       {"--model: one sample of lenet", "(measuring may use "}},
      {"profile --model lenet --sample 65536x65536x1 --classes 4 --minibatch 8,32 --output "
       "made.toml",
       {"--minibatch: 32 samples", "(measuring may use "}},
      {"probe --device gpu --output made.toml", {"--device: ", "'gpu'", "auto, cpu, cuda"}},
      {"probe --device cpu --output no/such/folder.toml", {"--output: no/such/folder.toml"}},
      {"profile --model mlp --sample 8x8x1 --classes 4 --output no/such/folder.toml",
       {"--output: no/such/folder.toml"}},
      {std::string(kPlan) + " --virtual-workers 7 --policy np",
       {"--virtual-workers: ", "cannot form 7"}},
      {std::string(kPlan) + " --servers s1", {"'s1'", "'s0'"}},
      {std::string(kPlan) + " --system hetpip", {"--system: ", "'hetpip'", "'hetpipe'"}},
      {std::string(kPlan) + " --minibatch 1000000000 --policy ed",
       {"with 1 minibatch in flight and a minibatch of 1000000000",
        "needs 4.4 TB, has 1.9 GB (95 % of 2.0 GB)"}},
  };
  for (const auto& [arguments, words] : kCases) expect_refused(arguments, words);
}

TEST_F(BadOptions, OutputThatCannotBeUsed) {
  const auto with_output = [](const std::string& output) {
    std::string arguments = kTrain;
    return arguments.replace(arguments.find("--output run"), 12, "--output " + output);
  };
  write(file("taken"), "mine");
  expect_refused(with_output("taken"),
                 {"--output taken: cannot be written", "taken is not a directory"});
  expect_refused(with_output("taken/run"), {"--output taken/run: cannot be created"});
  expect_refused(with_output("/proc/run"), {"--output /proc/run: cannot be created"});
  std::filesystem::create_symlink("nowhere", file("dangling"));
  expect_refused(with_output("dangling"), {"--output dangling: cannot be written"});

  // A run that is there stays as it is, whatever else is wrong.
  ASSERT_EQ(hetpipe(kTrain).code, 0);
  expect_refused(kTrain, {"--output run: holds an earlier run", "--resume"});
  expect_refused(std::string(kTrain) + " --resume", {"has consumed 64 samples", "Raise --epochs"});
  expect_refused(std::string(kTrain) + " --resume --epochs 2 --seed 5", {"with --seed 1"});
  expect_refused(std::string(kTrain) + " --resume --epochs 2 --optimizer adam",
                 {"optimizer 'sgd-momentum'", "Give --optimizer sgd-momentum"});
  write(file("data/train-labels-idx1-ubyte"), idx_labels(64, 3));
  write(file("data/t10k-labels-idx1-ubyte"), idx_labels(16, 3));
  const Ran other_data = hetpipe(std::string(kTrain) + " --resume --epochs 2");
  expect_refused(other_data, {"was trained on another data set"});
  write(file("data/train-labels-idx1-ubyte"), idx_labels(64));
  write(file("data/t10k-labels-idx1-ubyte"), idx_labels(16));
  write(file("lenet.toml"),
        "format = 1\nsystem = \"hetpipe\"\nmodel = \"lenet\"\nminibatch = 16\n[[virtual_worker]]\n"
        "[[virtual_worker.stage]]\nlayers = [0, 12]\ndevices = [\"n0:0\"]\n[parameter_server]\n"
        "nodes = [\"s0\"]\n");
  write(file("data/train-images-idx3-ubyte"), idx_images(64, 28));
  write(file("data/t10k-images-idx3-ubyte"), idx_images(16, 28));
  expect_refused(
      "train --plan lenet.toml --data data --transport threads --output run --resume "
      "--epochs 2",
      {"is of model 'mlp'", "trains 'lenet'"});
  write(file("data/train-images-idx3-ubyte"), idx_images(64));
  write(file("data/t10k-images-idx3-ubyte"), idx_images(16));
  expect_refused(with_output("fresh") + " --resume", {"--resume: fresh/checkpoints holds no"});
  expect_refused(with_output("fresh") + " --resume nowhere.h5", {"nowhere.h5"});
  // And can be resumed.
  EXPECT_EQ(hetpipe(std::string(kTrain) + " --resume --epochs 2").code, 0);
}

TEST_F(BadOptions, AReadOnlyFileSystem) {
  // Permission bits stop nobody who is root: a file system that is read-only does.
  const auto in_namespace = [&](const std::string& script) {
    return run(folder(), {"unshare", "-m", "sh", "-c", script});
  };
  if (in_namespace("mount -t tmpfs none data").code != 0) {
    GTEST_SKIP() << "file systems cannot be mounted here";
  }
  const std::string place = file("mnt").string();
  std::filesystem::create_directory(place);
  std::string arguments = kTrain;
  arguments.replace(arguments.find("--output run"), 12, "--output mnt/run");
  const Ran ran = in_namespace("mount -t tmpfs -o ro none mnt && exec " +
                               std::string(HETPIPE_COMMAND) + " " + arguments);
  expect_refused(ran, {"--output mnt/run: cannot be created", "Read-only file system"});
}

// Into a script goes nothing that a shell or Slurm would take for something else.
TEST_F(BadOptions, BatchScriptsRefuseWhatTheyCannotHold) {
  const std::string train = " -- --model mlp --data data --epochs 1";
  const std::string sbatch = "sbatch --cluster cluster.toml ";
  for (const std::string option : {"--name", "--partition", "--array", "--sbatch", "--nodes"}) {
    expect_refused(sbatch + option +
                       "=a\x01"
                       "b" +
                       train,
                   {option + ": an argument holds a line break"});
  }
  expect_refused(sbatch +
                     "-- --model mlp --data a\x01"
                     "b",
                 {"--data: an argument holds a line break"});
  expect_refused(sbatch + "--time banana" + train, {"--time: 'banana' is no time limit of Slurm"});
  expect_refused(sbatch + "--time 2 --notice 120" + train,
                 {"--notice: 120 s, and the time limit is 120 s"});
  expect_refused(sbatch + "--name a/b" + train, {"--name: 'a/b' cannot be the name of a job"});
  expect_refused(sbatch + "--array 1;2" + train, {"--array: '1;2' (not a list of numbers)"});
  expect_refused(sbatch + "--array 0-3" + train + " --metrics run.prom",
                 {"--metrics: cannot be given after -- together with --array"});
  expect_refused(sbatch + train + " --metrics run.txt", {"'run.txt' does not end in .prom"});
  expect_refused(sbatch + "--setup=if" + train, {"--setup: 'if' (bash cannot read it as a line"});
  expect_refused(sbatch + "--setup=cat<<E" + train,
                 {"--setup: 'cat<<E' (bash cannot read it as a line", "here-document"});
  expect_refused(sbatch + "--setup=env\\" + train,
                 {"--setup: 'env\\' (would take the script's next line with it)"});
  expect_refused(sbatch + "--setup=no/env.sh" + train,
                 {"--setup: 'no/env.sh' (there is no such file)"});
  expect_refused(sbatch + "--container none.sif" + train,
                 {"--container: 'none.sif' (there is no such file)"});
  expect_refused(sbatch + "--container-runtime pyxis" + train,
                 {"--container-runtime: has no effect without --container"});
  expect_refused(sbatch + "--container a/b --container-runtime pyxis --launcher mpirun" + train,
                 {"--launcher: mpirun cannot start a container of Pyxis"});
}

}  // namespace bad_options_test
}  // namespace hetpipe::test
