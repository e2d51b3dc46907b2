// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "partitioner/profile/profile.h"
#include "partitioner/simulator/network.h"
#include "partitioner/simulator/plan_workers.h"

// All-reduce of gradients before each update, as this runtime does it: for every layer a chain of
// the devices that hold it, in the order of virtual workers, stages and replicas, whatever the cuts
// are; layers with the same devices share a chain (runtime/sync/exchange_parts.h). It starts when
// the last of its devices is done with its backward (the sums that went up before that are a few
// pieces), and the devices wait for it with their update; other stages continue.
namespace hetpipe {

enum class ReduceScope {
  everybody,       // all virtual workers
  virtual_worker,  // its replicas alone; servers do the rest
};

// [process] the processes that hold a layer with parameters that it holds as well, itself among
// them, ascending: whose gradients are in the sums that it waits for. Empty: it has no parameters.
std::vector<std::vector<int>> sharers(const Profile& profile,
                                      std::span<const PlanProcess> processes, ReduceScope scope);

class AllReduce {
 public:
  AllReduce(const Profile& profile, std::span<const PlanProcess> processes, ReduceScope scope,
            Network& network, int minibatches);

  // A process hands over its gradients of minibatch p; it waits for their sums.
  void join(EngineJob& job, int process, Minibatch p);
  void wait(EngineJob& job, int process, Minibatch p) const;

  double bytes_between_nodes() const { return bytes_between_nodes_; }  // per minibatch

 private:
  struct Group {
    Chain chain;
    ReducedBytes bytes;
    std::vector<Chain::Round> rounds;  // [minibatch], once somebody got there: one after the other
  };
  struct Seat {
    int group = 0;
    int member = 0;
  };
  std::vector<Group> groups_;
  std::vector<std::vector<Seat>> seats_of_;  // [process]
  double bytes_between_nodes_ = 0;
};

}  // namespace hetpipe
