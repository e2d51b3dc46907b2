// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/device_cases.h"

#include "tests/main/models_folder.h"

namespace hetpipe {
namespace {

Training small(const char* system, int in_flight, int micro_batches) {
  Training training{.model = "lenet-bn",
                    .sample = {6, 6, 1},
                    .samples = 60,
                    .test_samples = 10,
                    .workers = {{.minibatch = 12, .stage_ends = {4, 9}}},
                    .system = system,
                    .micro_batches = micro_batches,
                    .in_flight = in_flight,
                    .optimizer = {.rate = 0.05f}};
  training.evaluate_every = 1;
  return training;
}

Training servers() {
  Training training = small("hetpipe", 2, 1);
  training.workers.push_back({.minibatch = 8, .stage_ends = {6}});
  training.servers = 2;
  training.distance = 1;
  return training;
}

Training hosted() {
  Training training = servers();
  training.servers = 1;
  training.hosted = true;
  training.pull = "newest";
  return training;
}

// Of few samples, batch norms would magnify rounding a hundredfold.
Training split_backward() {
  Training training = small("zero-bubble", 1, 4);
  training.samples = 120;
  training.workers[0].minibatch = 24;
  return training;
}

// Unequal replicas of both stages.
Training replicas() {
  Training training = small("dapple", 1, 3);
  training.samples = 120;
  training.workers[0] = {.minibatch = 24, .stage_ends = {6}, .shares = {{5, 3}, {3, 5}}};
  return training;
}

Training skips() {
  Training training = small("pipedream", 3, 1);
  training.model = "resnet-8";
  training.sample = {8, 8, 3};
  training.pixels = true;
  training.workers[0].stage_ends = {3, 8, 16};
  return training;
}

Training clipped(SerialOptimizer::Clips clips, const char* system) {
  Training training = small(system, 2, 2);
  training.optimizer.clip_norm = 0.1;
  training.optimizer.clips = clips;
  return training;
}

Training tokens(const char* system) {
  Training training = small(system, 2, 2);
  training.model = "gnmt-tiny";
  training.sample = {3};
  training.classes = 6;
  training.workers[0].stage_ends = {2, 4};
  training.optimizer.name = "adam";
  training.optimizer.rate = 0.01f;
  return training;
}

// In two stages, each of which has replicas.
Training tied(const char* system) {
  Training training = tokens(system);
  training.model = "bert-tiny";
  training.workers[0].stage_ends = {14};
  training.workers[0].shares = {{2, 4}, {3, 3}};
  return training;
}

// Networks that PyTorch exported, which draw: in attention, and of whole samples.
Training exported(const char* name, const Shape& sample, int classes, int cut) {
  Training training = small("hetpipe", 2, 2);
  training.model = models_folder() / name;
  training.sample = sample;
  training.classes = classes;
  training.samples = 36;
  training.workers[0].stage_ends = {cut};
  training.optimizer.rate = 0.01f;
  return training;
}

Training data_parallel() {
  Training training = small("data-parallel", 1, 1);
  training.workers = {{.minibatch = 6}, {.minibatch = 6}, {.minibatch = 4}};
  return training;
}

}  // namespace

std::vector<DeviceCase> device_cases() {
  return {{"servers", servers()},
          {"hosted", hosted()},
          {"replicas", replicas()},
          {"skips", skips()},
          {"clipped-globally", clipped(SerialOptimizer::Clips::global, "gpipe")},
          {"clipped-by-stage", clipped(SerialOptimizer::Clips::stage, "spectrain")},
          {"tokens", tokens("xpipe")},
          {"recomputed", tokens("timeprest")},
          {"tied", tied("hetpipe")},
          {"tied-and-predicted", tied("spectrain")},
          {"split-backward", split_backward()},
          {"two-versions", small("pipedream-2bw", 2, 1)},
          {"data-parallel", data_parallel()},
          {"exported-gpt2", exported("gpt2", {12}, 40, 15)},
          {"exported-tagger", exported("tagger", {7}, 4, 5)},
          {"exported-cnn", exported("cnn", {18, 18, 3}, 10, 14)}};
}

std::string name_of_case(const testing::TestParamInfo<DeviceCase>& of) {
  std::string name = of.param.name;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

}  // namespace hetpipe
