// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/cost/footprints.h"
#include "partitioner/profile/profile.h"

// What the layers of one profile cost on kinds of devices, worked out once for all partitions that
// are asked for.
namespace hetpipe {

// Of one kind, at micro-batches of one size, so many of them in a minibatch.
struct KindTables {
  std::shared_ptr<const LayerCosts> costs;
  std::vector<double> compute;  // prefix sums over the layers: s per minibatch
  Footprints footprints;
};

class PartitionTables {
 public:
  // Always asked with the same profile, or equal ones, and with kinds of different names.
  const std::shared_ptr<const ModelCuts>& cuts(const Profile& profile);
  std::shared_ptr<const LayerCosts> costs(const Profile& profile, const DeviceKind& kind,
                                          int samples, Updates updates);
  std::shared_ptr<const KindTables> of(const Profile& profile, const DeviceKind& kind, int samples,
                                       int micro_batches, Updates updates);

 private:
  std::shared_ptr<const ModelCuts> cuts_;
  // By kind, samples and updates; and micro-batches.
  std::map<std::tuple<std::string, int, Updates>, std::shared_ptr<const LayerCosts>> costs_;
  std::map<std::tuple<std::string, int, Updates, int>, std::shared_ptr<const KindTables>> known_;
};

}  // namespace hetpipe
