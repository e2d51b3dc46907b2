// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "base/precision.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/profile/profile.h"

// The roofline model (Williams, Waterman, Patterson 2009) with a floor: a layer takes as long as
// its arithmetic at the device's peak, its memory traffic at the device's bandwidth, or the launch
// of its operations, whichever is longest; and after that as long as the all-reduces inside a group
// of GPUs. docs/devices-and-profiles.md has the equations.
namespace hetpipe {

// Whether activations, and the elements of products, take two bytes each.
constexpr bool two_bytes(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::fp16;
}

// What an operation takes at least, s, where a device type does not say (launch_latency).
// This runtime: a kernel's launch, which the host needs some microseconds for; a layer's operations
// are enqueued one after the other. Not fitted.
inline constexpr double kLaunchLatency = 5e-6;
// Megatron-DeepSpeed: PyTorch's interpreter, dispatcher and autograd, checkpointing and the
// engine's hooks. Fitted to measured iterations on A100s (docs/measured.md).
inline constexpr double kMegatronLaunchLatency = 70e-6;

// The one of a plan's `runtime`.
double usual_launch_latency(std::string_view runtime);

// What a device sustains, a group of GPUs taken together; bf16 at the rate of fp16.
double sustained_flops(const DeviceKind& kind, Precision precision);  // 0: peak not given
double sustained_bandwidth(const DeviceKind& kind);                   // 0: not given

// A device as estimates see it.
struct Rates {
  double flops = 0;           // per second
  double bandwidth = 0;       // bytes per second
  double launch_latency = 0;  // s per operation
  int gpus = 1;
  bool complete() const { return flops > 0 && bandwidth > 0; }
};
Rates rates_of(const DeviceKind& kind, Precision precision, double usual_launch_latency);

// One pass over one layer.
struct Work {
  double flops = 0;  // 0: not known
  double bytes = 0;
  double operations = 1;
};

// `outputs`: of all layers, for `batch` samples. `element_share`: of fp32's bytes that an element
// takes.
Work forward_work(const Profile& profile, std::size_t layer, const std::vector<double>& outputs,
                  int batch, int gpus, double element_share = 1);
// The backward pass computes the gradients of inputs and of weights: twice the forward's
// arithmetic, where the layer does not say, it touches each tensor and its gradient, and a layer
// with parameters launches twice as many operations.
Work backward_work(const ProfileLayer& layer, const Work& forward, int batch);

// Without the all-reduces.
double roofline(const Work& work, const Rates& rates);

// The all-reduce of a layer's pass inside a group of GPUs, in a ring: 2 (g - 1) messages, each of
// an equal part of the bytes, one after the other. 0 for a single GPU.
double group_all_reduce_seconds(double bytes, int gpus, const Link& link);

}  // namespace hetpipe
