// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "base/error.h"
#include "runtime/model/parameters.h"
#include "runtime/model/zoo.h"
#include "runtime/training/exact.h"

namespace hetpipe {
namespace training_checkpoint_test {

TrainJob one_worker() {
  TrainJob job;
  job.plan = parse_plan(
      "format = 1\nsystem = \"hetpipe\"\nmodel = \"mlp\"\nminibatch = 8\noptimizer = \"sgd\"\n"
      "[[virtual_worker]]\n[[virtual_worker.stage]]\nlayers = [0, 7]\ndevices = [\"n0:0\"]\n"
      "[parameter_server]\nnodes = [\"n0\"]\n",
      "plan.toml");
  job.model.name = "mlp";
  job.optimizer.name = "sgd";
  job.dataset_size = 64;
  job.end_position = 64;
  job.exact_checkpoints = false;
  return job;
}

TEST(AssembleCheckpoint, RefusesParametersThatAreNotFinite) {
  const TrainJob job = one_worker();
  const Model model = make_model("mlp", {4, 4, 1}, 3);
  const Sampler sampler = make_sampler(job);
  const WaveRules rules = make_wave_rules(job, sampler);
  const ShardMap map(model, {-1, 0, -1, 0, -1, 0, -1}, 1);
  const ParameterLayout layout = ParameterLayout::parameters(model, 0, model.layer_count());
  CheckpointParts parts;
  parts.label = 2;
  parts.workers.resize(1);
  parts.workers[0].resize(1);
  parts.shards.resize(1);
  std::vector<float>& weights = parts.shards[0].snapshot.weights;
  weights.assign(static_cast<std::size_t>(layout.count()), 0.5f);
  EXPECT_EQ(assemble_checkpoint(job, model, map, rules, sampler, parts).parameters.size(),
            layout.entries().size());

  weights[static_cast<std::size_t>(layout.of_layer(3)[1].offset)] =
      -std::numeric_limits<float>::infinity();
  try {
    assemble_checkpoint(job, model, map, rules, sampler, parts);
    FAIL() << "taken";
  } catch (const NumericalError& error) {
    EXPECT_STREQ(error.what(), "parameter linear2/bias holds -inf");
  }
}

// Without servers the first virtual worker's stages hold it all.
TEST(AssembleCheckpoint, WithoutServersFromTheStages) {
  TrainJob job = one_worker();
  job.optimizer.name = "sgd-momentum";
  const Sampler sampler = make_sampler(job);
  const WaveRules rules = make_wave_rules(job, sampler);
  job.plan.server.reset();
  job.plan.system = "gpipe";
  const Model model = make_model("mlp", {4, 4, 1}, 3);
  const ShardMap map(model, std::vector<int>(7, -1), 0);
  CheckpointParts parts;
  parts.label = 2;
  parts.workers.resize(1);
  float value = 0;
  for (const auto& [first, end] : {std::pair{0, 3}, std::pair{3, 7}}) {
    StageState& stage = parts.workers[0].emplace_back();
    stage.label = 2;
    stage.slots.resize(1);
    for (auto left = ParameterLayout::parameters(model, first, end).count(); left > 0; --left) {
      stage.weights.push_back(value++);
      stage.slots[0].push_back(-value);
    }
  }
  const Checkpoint checkpoint = assemble_checkpoint(job, model, map, rules, sampler, parts);
  EXPECT_FALSE(checkpoint.exact);
  float expected = 0;
  std::size_t t = 0;
  const ParameterLayout layout = ParameterLayout::parameters(model, 0, 7);
  for (const ParameterEntry& entry : layout.entries()) {
    const NamedTensor& tensor = checkpoint.parameters.at(t);
    const NamedTensor& slot = checkpoint.slots.at("velocity").at(t++);
    EXPECT_EQ(tensor.name, entry.name);
    EXPECT_EQ(static_cast<std::int64_t>(tensor.values.size()), entry.count);
    for (std::size_t e = 0; e < tensor.values.size(); ++e) {
      EXPECT_EQ(tensor.values[e], expected++);
      EXPECT_EQ(slot.values[e], -expected);
    }
  }
  EXPECT_EQ(t, checkpoint.parameters.size());
}

TEST(ExactContinuation, OfWavesAlone) {
  TrainJob job = one_worker();
  job.exact_checkpoints = true;
  const WaveRules rules = make_wave_rules(job, make_sampler(job));
  EXPECT_TRUE(writes_exact(job, rules));
  job.plan.virtual_workers[0].stages[0].devices.push_back({"n0", 1});
  EXPECT_FALSE(writes_exact(job, rules)) << "replicas have running statistics of their own";
  job = one_worker();
  job.exact_checkpoints = true;
  job.plan.server.reset();
  job.plan.system = "gpipe";
  EXPECT_FALSE(writes_exact(job, rules));
  EXPECT_EQ(
      why_not_exact(Checkpoint{}, job),
      "between minibatches they are empty anyway (weights and optimizer state continue exactly)");
  job.plan.system = "pipedream";
  EXPECT_EQ(why_not_exact(Checkpoint{}, job),
            "without parameter servers nothing is stored of minibatches in flight");
}

// Such files have label times Nm for the step, whether an update was made of a minibatch or a wave.
TEST(CountsOfACheckpoint, OfABuildThatDidNotCount) {
  Checkpoint checkpoint;
  checkpoint.label = 10;
  checkpoint.minibatches = 78;
  checkpoint.optimizer_step = 40;
  for (const auto& [system, updates] : {std::pair{"hetpipe", 40}, std::pair{"pipedream-2bw", 10}}) {
    checkpoint.system = system;
    const Counts counts = counts_of(checkpoint);
    EXPECT_EQ(counts.minibatches, 78);
    EXPECT_EQ(counts.worker_minibatches, 40);
    EXPECT_EQ(counts.updates, updates) << system;
  }
  checkpoint.worker_minibatches = 41;
  EXPECT_EQ(counts_of(checkpoint), (Counts{78, 41, 40}));
}

// The copy that lies on the shard beside its owner is left out, and read back from the one tensor.
TEST(AssembleCheckpoint, HoldsASharedWeightOnce) {
  TrainJob job = one_worker();
  const Model model = make_model("gpt2-tiny", {5}, 7);
  const int layers = model.layer_count();
  job.plan.virtual_workers[0].stages[0].end_layer = layers;
  const Sampler sampler = make_sampler(job);
  const WaveRules rules = make_wave_rules(job, sampler);
  const ShardMap map(model, std::vector<int>(static_cast<std::size_t>(layers), 0), 1);
  std::vector<int> all(static_cast<std::size_t>(layers));
  std::iota(all.begin(), all.end(), 0);
  CheckpointParts parts;
  parts.label = 2;
  parts.workers.resize(1);
  parts.workers[0].resize(1);
  parts.shards.resize(1);
  parts.shards[0].snapshot.weights = starting_state(job, model, nullptr, all).parameters;
  const Checkpoint checkpoint = assemble_checkpoint(job, model, map, rules, sampler, parts);
  std::int64_t floats = 0;
  int shared = 0;
  for (const NamedTensor& tensor : checkpoint.parameters) {
    floats += static_cast<std::int64_t>(tensor.values.size());
    EXPECT_NE(tensor.name, "head/weight");
    if (tensor.name == "wte/weight") {
      ++shared;
      EXPECT_EQ(tensor.order, "vocabulary,features");
    }
  }
  EXPECT_EQ(shared, 1);
  EXPECT_EQ(floats, model.parameter_count());
  EXPECT_EQ(starting_state(job, model, &checkpoint, all).parameters,
            parts.shards[0].snapshot.weights);
}

}  // namespace training_checkpoint_test
}  // namespace hetpipe
