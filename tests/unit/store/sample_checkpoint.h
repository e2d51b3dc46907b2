// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/store/checkpoint.h"

namespace hetpipe {

inline NamedTensor sample_tensor(std::string name, std::vector<std::int64_t> shape,
                                 std::string order) {
  NamedTensor tensor{std::move(name), std::move(shape), {}, std::move(order)};
  std::int64_t count = 1;
  for (std::int64_t side : tensor.shape) count *= side;
  const std::uint64_t key = random_key({static_cast<std::uint64_t>(tensor.name.size())});
  for (std::int64_t i = 0; i < count; ++i) {
    tensor.values.push_back(random_normal(key, static_cast<std::uint64_t>(i)));
  }
  return tensor;
}

// Every member differs from its default; tensors sorted by name, as they are read back.
inline Checkpoint sample_checkpoint() {
  Checkpoint checkpoint;
  checkpoint.model = "lenet";
  checkpoint.model_fingerprint = 0xfedcba9876543210ULL;
  checkpoint.system = "hetpipe";
  checkpoint.precision = "float32";
  checkpoint.minibatches = 4711;
  checkpoint.worker_minibatches = 1179;
  checkpoint.label = 12;
  checkpoint.sampler = {0xffffffffffffff01ULL, 60000, 0x8123456789abcdefULL, 150'752};
  checkpoint.optimizer = "sgd-momentum";
  checkpoint.optimizer_step = 1178;
  checkpoint.parameters = {sample_tensor("block1/conv/weight", {2, 3, 2, 2}, "OIHW"),
                           sample_tensor("conv1/bias", {6}, ""),
                           sample_tensor("conv1/weight", {6, 1, 5, 5}, "OIHW"),
                           sample_tensor("fc/weight", {7, 3}, "in,out")};
  checkpoint.statistics = {sample_tensor("bn1/mean", {6}, ""),
                           sample_tensor("bn1/variance", {6}, "")};
  checkpoint.slots["velocity"] = {sample_tensor("conv1/bias", {6}, ""),
                                  sample_tensor("conv1/weight", {6, 1, 5, 5}, "OIHW")};
  checkpoint.slots["second_moment"] = {sample_tensor("fc/weight", {7, 3}, "in,out")};
  checkpoint.trained_on = TrainedOn{
      {28, 28, 1}, 10, std::string("\0 az\xff", 5), {"apple", "", "a name that is longer"}};
  checkpoint.exact = ExactState{
      {{"build", -4}, {"origin_label", 7}, {"worker-0/next", 1LL << 62}},
      {sample_tensor("shard-0/weights", {9}, ""), sample_tensor("worker-0/stage-1/base", {5}, ""),
       sample_tensor("worker-1/stage-0/base", {4}, "")}};
  return checkpoint;
}

}  // namespace hetpipe
