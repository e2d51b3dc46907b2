// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "partitioner/planners/allocation.h"
#include "partitioner/planners/partition.h"
#include "partitioner/planners/planner.h"

// Which devices form which virtual workers so that the slowest of them is fastest, with any devices
// left out: two dynamic programs over the multisets of a pool's devices, where devices of one kind
// on one node are alike.
//
//   F(i, U, c)   the least bottleneck of the layers from cut i on, one stage on each device of U, a
//                device of class c first; a stage takes its computing and what it receives, as in
//                partition.h. Cuts are a few, where little crosses; every stage fits its device's
//                memory with one minibatch in flight.
//   h(n, U)      = max over W of U of min(rate(W), h(n - 1, U \ W)): the slowest of n virtual
//                workers that are formed of U, where rate(W) = min(1 / bottleneck, Nm / sum of
//                stages).
//
// More devices never make h smaller, which is why a search that starts from these compositions does
// not miss what it would find in a smaller pool.
namespace hetpipe {

// What a second of messages counts in a stage's time where most of it passes while the stage
// computes (PartitionRequest::message_weight).
constexpr double kHiddenMessages = 0.6;

class Packing {
 public:
  // Of minibatches of so many samples, each in so many micro-batches. Pools of too many different
  // multisets (hundreds of devices of several kinds) have no tables.
  Packing(const PlanRequest& request, int minibatch, int micro_batches);
  // The same of a pool all of whose devices are in a larger one, for the same request otherwise,
  // from the tables of that; nothing where those of its own would be others.
  static std::optional<Packing> within(const Packing& larger, const Cluster& cluster, int minibatch,
                                       int micro_batches);

  bool empty() const;  // without tables

  // Compositions of the pool, for each number of virtual workers (of `virtual_workers` alone where
  // given) the best ones for some numbers of minibatches in flight; virtual workers have at most
  // `max_stages` devices.
  std::vector<Allocation> compositions(std::optional<int> virtual_workers, int max_stages) const;

  // Samples/s of a composition of the pool's devices at which its slowest virtual worker's slowest
  // stage is always busy; nothing where a virtual worker does not fit so, or there are no tables of
  // devices by node.
  std::optional<double> throughput(const Allocation& composition) const;

  // The partition of F for these devices, cuts from one likely cut to the next; nothing as above.
  std::optional<LikelyPartition> partition(const std::vector<DeviceName>& devices) const;
  int samples() const;  // of a micro-batch

 private:
  struct Tables;

  Packing() = default;
  void number_devices();
  Allocation allocation(const std::vector<std::size_t>& workers) const;

  std::shared_ptr<const Tables> tables_;
  std::vector<std::vector<DeviceName>> devices_;  // [class of the tables]: of this pool
  std::map<DeviceName, std::size_t> adds_;        // to a multiset's number
  std::size_t pool_ = 0;                          // the multiset of all of them
};

}  // namespace hetpipe
