// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/cost/footprints.h"
#include "partitioner/profile/profile.h"
#include "partitioner/schedule/counts.h"

// What the layers of one profile cost on kinds of devices and what pipelines hold, worked out once
// for all plans that are looked at.
namespace hetpipe {

// Of one kind, at micro-batches of one size, so many of them in a minibatch.
struct KindTables {
  std::shared_ptr<const LayerCosts> costs;
  std::vector<double> compute;  // prefix sums over the layers: s per minibatch
  Footprints footprints;
};

class ModelTables {
 public:
  // Always asked with the same profile, or equal ones, and with kinds of different names.
  const std::shared_ptr<const ModelCuts>& cuts(const Profile& profile);
  std::shared_ptr<const LayerCosts> costs(const Profile& profile, const DeviceKind& kind,
                                          int samples, Updates updates);
  std::shared_ptr<const KindTables> of(const Profile& profile, const DeviceKind& kind, int samples,
                                       int micro_batches, Updates updates);
  HeldTable& held() { return held_; }

 private:
  using Key = std::tuple<std::string, int, Updates>;  // kind, samples
  std::shared_ptr<const ModelCuts> cuts_;
  std::map<Key, std::shared_ptr<const LayerCosts>> costs_;
  std::map<Key, std::shared_ptr<const LayerFootprints>> footprints_;
  std::map<std::pair<Key, int>, std::shared_ptr<const KindTables>> known_;  // and micro-batches
  HeldTable held_;
};

}  // namespace hetpipe
