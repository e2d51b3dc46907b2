// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/cluster/cluster.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {

// Samples/s that no plan on this cluster can exceed: only computing, every device
// busy all the time with whichever part of whichever layer, in the batches up to `minibatch`
// samples in which it is fastest.
//
// If all virtual workers together do R samples/s, a layer l is done R times a second, by the
// devices d in parts x(d,l) with sum over d of x(d,l) = R, and sum over l of x(d,l) t(d,l) <= 1, t
// being seconds per sample. For any weights w(d) >= 0 therefore
//
//   R * sum over l of min over d of w(d) t(d,l) <= sum over d of w(d)            (linear duality)
//
// The weights start at the devices' speeds and are improved step by step; every step is a bound.
double throughput_bound(const Cluster& cluster, const Profile& profile, int minibatch);

}  // namespace hetpipe
