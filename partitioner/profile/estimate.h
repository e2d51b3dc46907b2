// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/precision.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/profile/profile.h"
#include "partitioner/profile/roofline.h"

// Estimated times of layers on device types without measurements, by the roofline model with a
// floor for launches (roofline.h). docs/devices-and-profiles.md has the equations and how far they
// were off where it could be checked.
namespace hetpipe {

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
// one it was measured in, or the one of its highest peak. `runtime`: a plan's, whose launches take
// their usual time where a kind does not say (usual_launch_latency).
Profile with_estimates(Profile profile, const Cluster& cluster, const PrecisionChoice& precision,
                       const KindPlace& place = {}, std::string_view runtime = {});

}  // namespace hetpipe
