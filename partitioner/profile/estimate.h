// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "base/precision.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/profile/profile.h"

// Estimated times of layers on device types without measurements, by the roofline model
// (Williams, Waterman, Patterson 2009): a layer takes as long as its arithmetic at the device's
// peak or its memory traffic at the device's bandwidth, whichever is longer.
// docs/devices-and-profiles.md has the equations and how far they were off where it could be
// checked.
namespace hetpipe {

// Whether activations, and the elements of products, take two bytes each.
constexpr bool two_bytes(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::fp16;
}

// Sustained rates of a device, a group of GPUs taken together: what is used of its peaks. bf16 runs
// at the rate of fp16.
double sustained_flops(const DeviceKind& kind, Precision precision);  // 0: peak not given
double sustained_bandwidth(const DeviceKind& kind);                   // 0: not given

// Where a device type is declared, "lab.toml:7", for messages about it.
using KindPlace = std::function<std::string(const DeviceKind& kind)>;

// The precisions in which the profile's times were taken: fp32, but for the cluster's device types
// whose measurements state another one.
PrecisionChoice measured_precisions(const Profile& profile, const Cluster& cluster);

// The profile with a measurement, marked as an estimate, for each kind of the cluster's devices
// that has none of its own in its precision. Scaled from the measured kind whose rates are nearest
// (relative roofline); where nothing was measured, from the layers' flops and bytes (absolute
// roofline). Emulated kinds get none: they run at the speed of "cpu". UserError with every kind for
// which there is neither, where `place` says. A kind whose precision is left open (auto) has the
// one it was measured in, or the one of its highest peak.
Profile with_estimates(Profile profile, const Cluster& cluster, const PrecisionChoice& precision,
                       const KindPlace& place = {});

}  // namespace hetpipe
