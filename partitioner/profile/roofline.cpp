// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/roofline.h"

#include <algorithm>

#include "base/error.h"

namespace hetpipe {
namespace {

constexpr double kBackward = 2;  // times the forward pass

// What a layer reads: its producers' outputs, or what the profile says of a source.
double input_bytes_of(const Profile& profile, std::size_t layer, const std::vector<double>& outputs,
                      int batch) {
  const ProfileLayer& of = profile.layers[layer];
  if (of.input_bytes > 0 || of.inputs.empty()) return of.input_bytes * batch;
  double bytes = 0;
  for (const int input : of.inputs) bytes += outputs[static_cast<std::size_t>(input)];
  return bytes;
}

bool learns(const ProfileLayer& layer) {
  return layer.parameter_bytes > 0 || !layer.shares.empty();
}

}  // namespace

double usual_launch_latency(std::string_view runtime) {
  return runtime == "megatron-deepspeed" ? kMegatronLaunchLatency : kLaunchLatency;
}

double sustained_flops(const DeviceKind& kind, Precision precision) {
  const double fp32 = kind.peak_flops * kind.fp32_efficiency;
  const double tensor = precision == Precision::tf32 ? kind.peak_flops_tf32
                        : two_bytes(precision)       ? kind.peak_flops_fp16
                                                     : 0;
  return kind.gpus * std::max(fp32, tensor * kind.tensor_efficiency);
}

double sustained_bandwidth(const DeviceKind& kind) {
  return kind.gpus * kind.memory_bandwidth * kind.memory_efficiency;
}

Rates rates_of(const DeviceKind& kind, Precision precision, double usual_launch_latency) {
  return {sustained_flops(kind, precision), sustained_bandwidth(kind),
          kind.launch_latency.value_or(usual_launch_latency), kind.gpus};
}

Work forward_work(const Profile& profile, std::size_t layer, const std::vector<double>& outputs,
                  int batch, int gpus, double element_share) {
  const ProfileLayer& of = profile.layers[layer];
  // A group's parameter_bytes are those of each GPU, its other bytes those of all of them.
  const double bytes = input_bytes_of(profile, layer, outputs, batch) + outputs[layer] +
                       static_cast<double>(of.parameter_bytes) * gpus;
  return {of.forward_flops * batch, bytes * element_share, static_cast<double>(of.operations)};
}

Work backward_work(const ProfileLayer& layer, const Work& forward, int batch) {
  const double flops =
      layer.backward_flops > 0 ? layer.backward_flops * batch : kBackward * forward.flops;
  return {flops, kBackward * forward.bytes, forward.operations * (learns(layer) ? kBackward : 1)};
}

double roofline(const Work& work, const Rates& rates) {
  return std::max({work.operations * rates.launch_latency, work.flops / rates.flops,
                   work.bytes / rates.bandwidth});
}

double group_all_reduce_seconds(double bytes, int gpus, const Link& link) {
  if (gpus < 2 || !(bytes > 0)) return 0;
  if (!(link.bandwidth > 0)) {
    throw UserError("",
                    "the cluster has no link inside a node (group_all_reduce_bytes cross it). Give "
                    "it [link.intra_node].");
  }
  return 2.0 * (gpus - 1) * link.transfer_seconds(bytes / gpus);
}

}  // namespace hetpipe
