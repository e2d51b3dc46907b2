// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "partitioner/simulator/all_reduce.h"

// Sums of gradients whose times were recorded: a device has its sum so many seconds after the last
// of those that share layers with it has handed over its gradients.
namespace hetpipe {

class RecordedSums {
 public:
  RecordedSums(const Profile& profile, std::span<const PlanProcess> processes, ReduceScope scope,
               int minibatches, EngineJob& job);

  bool alone(int process) const { return group_of_[static_cast<std::size_t>(process)] < 0; }
  void join(EngineJob& job, int process, Minibatch p) const;
  void wait(EngineJob& job, int process, Minibatch p, double seconds) const;

 private:
  std::vector<int> first_signal_;             // [group], those of all minibatches follow
  std::vector<int> group_of_;                 // [process] whose signal it waits for; -1: alone
  std::vector<std::vector<int>> counted_by_;  // [process] groups that it is a member of
};

}  // namespace hetpipe
