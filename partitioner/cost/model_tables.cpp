// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/model_tables.h"

namespace hetpipe {

const std::shared_ptr<const ModelCuts>& ModelTables::cuts(const Profile& profile) {
  if (!cuts_) cuts_ = std::make_shared<const ModelCuts>(profile);
  return cuts_;
}

std::shared_ptr<const LayerCosts> ModelTables::costs(const Profile& profile, const DeviceKind& kind,
                                                     int samples, Updates updates) {
  std::shared_ptr<const LayerCosts>& known = costs_[{kind.name, samples, updates}];
  if (!known) {
    known = std::make_shared<const LayerCosts>(costs_on(profile, kind, samples, updates));
  }
  return known;
}

std::shared_ptr<const KindTables> ModelTables::of(const Profile& profile, const DeviceKind& kind,
                                                  int samples, int micro_batches, Updates updates) {
  const Key key{kind.name, samples, updates};
  std::shared_ptr<const KindTables>& known = known_[{key, micro_batches}];
  if (known) return known;
  std::shared_ptr<const LayerCosts> of_kind = costs(profile, kind, samples, updates);
  std::vector<double> compute{0};
  for (std::size_t l = 0; l < of_kind->forward.size(); ++l) {
    compute.push_back(compute.back() +
                      micro_batches * (of_kind->forward[l] + of_kind->backward[l]));
  }
  std::shared_ptr<const LayerFootprints>& of_layers = footprints_[key];
  if (!of_layers) {
    of_layers = std::make_shared<const LayerFootprints>(profile, cuts(profile), *of_kind, samples);
  }
  known = std::make_shared<const KindTables>(
      KindTables{std::move(of_kind), std::move(compute), {of_layers, micro_batches}});
  return known;
}

}  // namespace hetpipe
