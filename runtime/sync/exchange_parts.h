// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "partitioner/plan/plan.h"
#include "runtime/model/model.h"
#include "runtime/sync/shard_map.h"

// Which ranks sum what with each other, as values that every rank computes alike from the plan.
namespace hetpipe {

// One sum that a rank takes part in: floats of its flat array, with those of the other members of
// the group, in the group's order.
struct ExchangePart {
  int number = 0;           // of the sum, the same at all its members; see GradientExchange
  FlatRange range;          // in this rank's flat array; the same count at all members
  std::vector<Rank> group;  // in the order of adding
  int place = 0;            // of this term in the group
  bool operator==(const ExchangePart&) const = default;
};

// Whose gradients are added up before an update.
enum class ExchangeScope {
  everybody,       // all virtual workers' stages and their replicas (sync = all-reduce)
  virtual_worker,  // only replicas of a stage (under waves; servers do the rest)
};

struct ExchangePlan {
  const std::vector<PlanVirtualWorker>& workers;               // their cuts
  const std::vector<std::vector<std::vector<Rank>>>& rank_of;  // [virtual worker][stage][replica]
  // Floats of each layer in a flat array: its own parameters, or its running statistics.
  std::vector<std::int64_t> floats;
};

// Floats of each layer of a model.
std::vector<std::int64_t> floats_of_layers(const Model& model, ShardMap::What what);

// By rank, of `ranks`: the sums that it takes part in, ascending by number. A rank's flat array
// holds its stages (chunks) one after another in their order, each with its layers in order. Layers
// next to one another whose holders are the same share one sum, so cuts of virtual workers need not
// agree. The order inside a group: virtual worker, stage, replica. Where nobody else holds a
// layer there is no sum.
std::vector<std::vector<ExchangePart>> exchange_parts(const ExchangePlan& plan, ExchangeScope scope,
                                                      int ranks);

// What a rank's floats count in a mean over the same groups: its share of the samples, by its
// stage's shares (of a micro-batch, where the plan has none of its own) and, for everybody, the
// virtual workers' minibatches. The factors of one layer's holders add up to 1 (rounded to floats).
struct MeanFactor {
  FlatRange range;  // one stage of the rank's flat array
  float factor = 1;
  bool operator==(const MeanFactor&) const = default;
};
std::vector<std::vector<MeanFactor>> mean_factors(const ExchangePlan& plan, ExchangeScope scope,
                                                  const std::vector<int>& minibatch_of_worker,
                                                  int micro_batches, int ranks);

}  // namespace hetpipe
