// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/partition_tables.h"

namespace hetpipe {

const std::shared_ptr<const ModelCuts>& PartitionTables::cuts(const Profile& profile) {
  if (!cuts_) cuts_ = std::make_shared<const ModelCuts>(profile);
  return cuts_;
}

std::shared_ptr<const LayerCosts> PartitionTables::costs(const Profile& profile,
                                                         const DeviceKind& kind, int samples,
                                                         Updates updates) {
  std::shared_ptr<const LayerCosts>& known = costs_[{kind.name, samples, updates}];
  if (!known) {
    known = std::make_shared<const LayerCosts>(costs_on(profile, kind, samples, updates));
  }
  return known;
}

std::shared_ptr<const KindTables> PartitionTables::of(const Profile& profile,
                                                      const DeviceKind& kind, int samples,
                                                      int micro_batches, Updates updates) {
  std::shared_ptr<const KindTables>& known = known_[{kind.name, samples, updates, micro_batches}];
  if (known) return known;
  std::shared_ptr<const LayerCosts> of_kind = costs(profile, kind, samples, updates);
  std::vector<double> compute{0};
  for (std::size_t l = 0; l < of_kind->forward.size(); ++l) {
    compute.push_back(compute.back() +
                      micro_batches * (of_kind->forward[l] + of_kind->backward[l]));
  }
  Footprints footprints(profile, cuts(profile), *of_kind, samples, micro_batches);
  known = std::make_shared<const KindTables>(
      KindTables{std::move(of_kind), std::move(compute), std::move(footprints)});
  return known;
}

}  // namespace hetpipe
