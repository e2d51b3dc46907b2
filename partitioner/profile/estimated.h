// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/precision.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/profile/profile.h"
#include "partitioner/profile/roofline.h"

// The measurements that estimates make (estimate.h): of one kind, from another one's, or from flops
// and bytes alone. Each is marked as an estimate.
namespace hetpipe {

// What an absolute estimate says of itself (Measurement::estimate).
inline constexpr const char* kFromFlopsAndBytes = "from flops and bytes by roofline";

// The device type that is estimated.
struct EstimatedKind {
  const DeviceKind& kind;
  Rates rates;
  Precision precision = Precision::fp32;
  const Link& intra_node;  // which a group's all-reduces cross
};

// A measured time, times the ratio of the rooflines; a group's all-reduces (group_all_reduce_bytes)
// are taken out before and put back after. Without flops, the part of the time that a layer's bytes
// explain scales with the bandwidth and the rest with the peak. `from`: of what was measured.
Measurement relative_estimate(const Profile& profile, const Measurement& measured,
                              const Rates& from, const EstimatedKind& to);

// Each layer's bytes per sample, fp32.
struct Sizes {
  std::vector<double> output;
  std::vector<double> stash;
};
// As the layers state them. Where none does, as they were measured on another kind: they hardly
// depend on it, so that the largest count.
Sizes sizes_of(const Profile& profile);

// From the layers' flops and bytes, at each of some batches.
std::vector<Measurement> absolute_estimates(const Profile& profile, const Sizes& sizes,
                                            const EstimatedKind& of);

}  // namespace hetpipe
