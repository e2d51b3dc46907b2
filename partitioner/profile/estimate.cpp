// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/estimate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/cluster/device_type.h"

namespace hetpipe {
namespace {

// Shares of a peak that kernels reach. Large products in tensor cores: published measurements lie
// between 0.5 and 0.82 (A100, B200, V100, GA102). Streaming kernels move about four fifths of the
// stated memory bandwidth.
constexpr double kTensorEfficiency = 0.7;
constexpr double kBandwidthEfficiency = 0.8;

// Batches of an absolute estimate: between them time grows as from latency-free small calls, which
// read all parameters for little, to large ones.
constexpr std::array kBatches{1, 8, 32, 128};

// Bytes that a training step of SGD with momentum reads and writes per byte of parameters: weight,
// gradient and velocity in, weight and velocity out.
constexpr double kUpdateTraffic = 5;

// As an estimate states it: nothing for fp32, the default.
std::optional<Precision> stated(Precision precision) {
  return precision == Precision::fp32 ? std::nullopt : std::optional(precision);
}

struct Rates {
  double flops = 0;      // per second
  double bandwidth = 0;  // bytes per second
};

Rates rates_of(const DeviceKind& kind, Precision precision) {
  return {sustained_flops(kind, precision), sustained_bandwidth(kind)};
}

bool complete(const Rates& rates) { return rates.flops > 0 && rates.bandwidth > 0; }

double roofline(double flops, double bytes, const Rates& rates) {
  return std::max(flops / rates.flops, bytes / rates.bandwidth);
}

// Arithmetic and memory traffic of one layer's call.
struct Work {
  double flops = 0;  // 0: not known
  double bytes = 0;
};

// The backward pass computes the gradients of inputs and of weights: twice the forward's
// arithmetic, and it touches each tensor and its gradient.
constexpr double kBackward = 2;

Work forward_work(const ProfileLayer& layer, double input_bytes, double output_bytes, int batch) {
  return {layer.forward_flops * batch,
          input_bytes + output_bytes + static_cast<double>(layer.parameter_bytes)};
}

Work backward_work(const ProfileLayer& layer, const Work& forward, int batch) {
  const double flops =
      layer.backward_flops > 0 ? layer.backward_flops * batch : kBackward * forward.flops;
  return {flops, kBackward * forward.bytes};
}

// What a layer reads: its producers' outputs, or what the profile says of a source.
double input_bytes_of(const Profile& profile, std::size_t layer,
                      const std::vector<double>& output_bytes, int batch) {
  const ProfileLayer& of = profile.layers[layer];
  if (of.input_bytes > 0 || of.inputs.empty()) return of.input_bytes * batch;
  double bytes = 0;
  for (const int input : of.inputs) bytes += output_bytes[static_cast<std::size_t>(input)];
  return bytes;
}

// The measured time times the ratio of the rooflines. Without flops, the part of the time that the
// layer's bytes explain scales with the bandwidth and the rest with the peak.
double scaled(double seconds, const Work& work, const Rates& from, const Rates& to) {
  if (work.flops > 0) {
    return seconds * roofline(work.flops, work.bytes, to) / roofline(work.flops, work.bytes, from);
  }
  const double traffic = std::min(seconds, work.bytes / from.bandwidth);
  return traffic * from.bandwidth / to.bandwidth + (seconds - traffic) * from.flops / to.flops;
}

Measurement relative(const Profile& profile, const Measurement& measured, const DeviceKind& kind,
                     const Rates& from, const Rates& to, Precision precision) {
  Measurement result = measured;
  result.device = kind.name;
  result.precision = stated(precision);
  result.estimate = "from " + measured.device + "'s measurement " +
                    (measured.precision && *measured.precision != precision
                         ? "in " + to_string(*measured.precision) + " "
                         : "") +
                    "by roofline";
  const std::vector<double> outputs(measured.output_bytes.begin(), measured.output_bytes.end());
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    const double input = input_bytes_of(profile, l, outputs, measured.batch);
    const Work forward = forward_work(layer, input, outputs[l], measured.batch);
    result.forward[l] = scaled(measured.forward[l], forward, from, to);
    result.backward[l] =
        scaled(measured.backward[l], backward_work(layer, forward, measured.batch), from, to);
  }
  for (double& seconds : result.update) seconds *= from.bandwidth / to.bandwidth;
  for (double& seconds : result.damped_update) seconds *= from.bandwidth / to.bandwidth;
  for (std::size_t l = 0; l < result.orthogonal_update.size(); ++l) {
    const double plain = measured.update.empty() ? 0 : measured.update[l];
    result.orthogonal_update[l] =
        plain * from.bandwidth / to.bandwidth +
        std::max(0.0, measured.orthogonal_update[l] - plain) * from.flops / to.flops;
  }
  if (measured.precision && two_bytes(*measured.precision) != two_bytes(precision)) {
    for (auto* of : {&result.output_bytes, &result.stash_bytes}) {
      for (std::int64_t& bytes : *of) bytes = two_bytes(precision) ? bytes / 2 : bytes * 2;
    }
  }
  return result;
}

// Each layer's bytes per sample, fp32.
struct Sizes {
  std::vector<double> output;
  std::vector<double> stash;
};

// As the layers state them. Where none does, as they were measured on another kind: they hardly
// depend on it, but for the precision, so that the largest count.
Sizes sizes_of(const Profile& profile) {
  Sizes sizes;
  double stated = 0;
  for (const ProfileLayer& layer : profile.layers) {
    sizes.output.push_back(layer.output_bytes);
    sizes.stash.push_back(layer.stash_bytes);
    stated += layer.output_bytes + layer.stash_bytes;
  }
  if (stated > 0) return sizes;
  for (const Measurement& m : profile.measurements) {
    if (!m.estimate.empty()) continue;
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
      const auto per_sample = [&](std::int64_t bytes) {
        return static_cast<double>(bytes) / m.batch;
      };
      sizes.output[l] = std::max(sizes.output[l], per_sample(m.output_bytes[l]));
      sizes.stash[l] = std::max(sizes.stash[l], per_sample(m.stash_bytes[l]));
    }
  }
  return sizes;
}

Measurement absolute(const Profile& profile, const Sizes& sizes, const DeviceKind& kind,
                     const Rates& rates, int batch, Precision precision) {
  Measurement result;
  result.device = kind.name;
  result.batch = batch;
  result.precision = stated(precision);
  result.estimate = "from flops and bytes by roofline";
  const double share = two_bytes(precision) ? 0.5 : 1;  // of fp32's bytes
  const bool matrices = std::any_of(profile.layers.begin(), profile.layers.end(),
                                    [](const ProfileLayer& l) { return !l.matrices.empty(); });
  std::vector<double> outputs;
  for (const double bytes : sizes.output) outputs.push_back(bytes * batch);
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    Work forward =
        forward_work(layer, input_bytes_of(profile, l, outputs, batch), outputs[l], batch);
    forward.bytes *= share;
    const Work backward = backward_work(layer, forward, batch);
    result.forward.push_back(roofline(forward.flops, forward.bytes, rates));
    result.backward.push_back(roofline(backward.flops, backward.bytes, rates));
    result.update.push_back(kUpdateTraffic * static_cast<double>(layer.parameter_bytes) /
                            rates.bandwidth);
    if (matrices) {
      double flops = 0, bytes = 0;
      for (const MatrixSides& matrix : layer.matrices) {
        flops += orthogonal_flops(matrix);
        bytes += 4.0 * static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns);
      }
      const double plain = result.update.back();
      result.damped_update.push_back(plain + kDampingPasses * bytes / rates.bandwidth);
      result.orthogonal_update.push_back(plain + flops / rates.flops);
    }
    result.output_bytes.push_back(std::llround(outputs[l]));
    result.stash_bytes.push_back(std::llround(sizes.stash[l] * batch));
  }
  return result;
}

bool has_measurement(const Profile& profile, const std::string& device) {
  return std::any_of(profile.measurements.begin(), profile.measurements.end(),
                     [&](const Measurement& m) { return same_device_type(m.device, device); });
}

// The one that a device was measured in; nothing if that is not stated, or nothing was measured.
std::optional<Precision> precision_measured(const Profile& profile, const std::string& device) {
  for (const Measurement& m : profile.measurements) {
    if (m.precision && same_device_type(m.device, device)) return m.precision;
  }
  return std::nullopt;
}

// What suits a card best whose peaks these are.
Precision fastest_precision(const DeviceKind& kind) {
  return kind.peak_flops_fp16 > 0 ? Precision::fp16 : Precision::fp32;
}

bool has_flops(const Profile& profile) {
  return std::any_of(profile.layers.begin(), profile.layers.end(),
                     [](const ProfileLayer& layer) { return layer.forward_flops > 0; });
}

// The rates of a measured kind: as the cluster declares it, else from the catalogue. Where the
// measurement does not state its precision, it was taken in the one that is chosen.
Rates rates_of_measured(const Cluster& cluster, const PrecisionChoice& choice,
                        const Measurement& m) {
  const auto rates = [&](const DeviceKind& kind) {
    const auto stated = m.precision ? m.precision : choice.of(m.device);
    return rates_of(kind, stated.value_or(Precision::fp32));
  };
  for (const DeviceKind& kind : cluster.kinds) {
    if (same_device_type(kind.name, m.device)) return rates(kind);
  }
  const auto known = try_catalogue_kind(m.device);
  return known ? rates(*known) : Rates{};
}

// How unlike two devices are: the logarithms of both ratios count alike.
double distance(const Rates& a, const Rates& b) {
  return std::abs(std::log(a.flops / b.flops)) + std::abs(std::log(a.bandwidth / b.bandwidth));
}

// Why an emulated kind has no times, and what to do.
std::string no_pace(const Profile& profile, const DeviceKind& kind) {
  std::vector<std::string> covered;
  for (const Measurement& m : profile.measurements) {
    if (std::find(covered.begin(), covered.end(), m.device) == covered.end()) {
      covered.push_back(m.device);
    }
  }
  return "the profile of '" + profile.model + "' has no measurement on '" + kind.name + "' or '" +
         kind.emulate->of +
         "' (an emulated device runs at this machine's speed divided by its slowdown; " +
         (covered.empty() ? "nothing was measured" : "measured: " + join(covered, ", ")) +
         "). Measure it on such a machine: hetpipe profile --model " + profile.model + ".";
}

// Why a kind cannot be estimated, and what to do.
std::string refusal(const Profile& profile, const DeviceKind& kind, std::optional<Precision> own,
                    Precision precision, bool has_rates) {
  const std::string in = own ? " in " + to_string(precision) : "";
  const std::string start = "the profile of '" + profile.model + "' has no measurement on '" +
                            kind.name + "'" + in +
                            (own ? " (it has one in " + to_string(*own) + ")" : "") + ", and ";
  std::string measure = "measure it on such a machine: hetpipe profile --model " + profile.model;
  if (own) {
    measure += " --precision " + to_string(precision) + ". Or plan for " + to_string(*own) +
               " (--precision, or precision in a plan)";
  }
  measure += ".";
  if (!has_rates) {
    return start +
           "its speed is not known (an estimate needs peak_flops and memory_bandwidth). "
           "Add both to [device." +
           kind.name + "], or " + measure;
  }
  std::set<std::string> kinds;
  for (const Measurement& m : profile.measurements) {
    if (m.estimate.empty()) kinds.insert("'" + m.device + "'");
  }
  const std::string names = join(std::vector<std::string>(kinds.begin(), kinds.end()), ", ");
  if (kinds.empty()) {
    return start + "nothing to estimate it from (neither a measurement nor the layers' " +
           "forward_flops). Give one of them, or " + measure;
  }
  return start + "the speed of what it was measured on is not known (an estimate scales from " +
         names + ", whose peak_flops and memory_bandwidth are neither in the cluster file nor in " +
         "the catalogue). Give [device.TYPE] of one of these with both, correct the name, or " +
         measure;
}

}  // namespace

double sustained_flops(const DeviceKind& kind, Precision precision) {
  const double fp32 = kind.peak_flops * kind.fp32_efficiency;
  const double tensor = precision == Precision::tf32 ? kind.peak_flops_tf32
                        : two_bytes(precision)       ? kind.peak_flops_fp16
                                                     : 0;
  return kind.gpus * std::max(fp32, tensor * kTensorEfficiency);
}

double sustained_bandwidth(const DeviceKind& kind) {
  return kind.gpus * kind.memory_bandwidth * kBandwidthEfficiency;
}

PrecisionChoice measured_precisions(const Profile& profile, const Cluster& cluster) {
  PrecisionChoice choice;
  for (const DeviceKind& kind : cluster.kinds) {
    const auto measured = precision_measured(profile, kind.name);
    if (measured && *measured != choice.every) choice.of_kind[kind.name] = *measured;
  }
  return choice;
}

Profile with_estimates(Profile profile, const Cluster& cluster, const PrecisionChoice& choice,
                       const KindPlace& place) {
  const std::vector<Measurement> measured = profile.measurements;
  const bool absolutes = has_flops(profile);
  const Sizes sizes = sizes_of(profile);
  const auto where = [&](const DeviceKind& kind) { return place ? place(kind) : ""; };
  std::set<int> used;
  for (const Node& node : cluster.nodes) used.insert(node.kinds.begin(), node.kinds.end());
  Problems problems;
  for (const int index : used) {
    const DeviceKind& kind = cluster.kinds[static_cast<std::size_t>(index)];
    const auto own = precision_measured(profile, kind.name);
    const Precision precision = choice.of(kind.name).value_or(own ? *own : fastest_precision(kind));
    if (has_measurement(profile, kind.name) && (!own || *own == precision)) continue;
    if (kind.emulate) {
      if (!has_measurement(profile, kind.emulate->of))
        problems.add(where(kind), no_pace(profile, kind));
      continue;
    }
    const Rates rates = rates_of(kind, precision);
    // Only true measurements are scaled, and all batches of one kind.
    std::string nearest_kind;
    Rates nearest_rates;
    for (const Measurement& m : measured) {
      const Rates from = rates_of_measured(cluster, choice, m);
      if (!m.estimate.empty() || !complete(from) || !complete(rates)) continue;
      if (nearest_kind.empty() || distance(from, rates) < distance(nearest_rates, rates)) {
        nearest_kind = m.device;
        nearest_rates = from;
      }
    }
    const auto replace_own = [&] {
      std::erase_if(profile.measurements,
                    [&](const Measurement& m) { return same_device_type(m.device, kind.name); });
    };
    if (!nearest_kind.empty()) {
      replace_own();
      for (const Measurement& m : measured) {
        if (m.device != nearest_kind || !m.estimate.empty()) continue;
        profile.measurements.push_back(relative(profile, m, kind, nearest_rates, rates, precision));
      }
    } else if (absolutes && complete(rates)) {
      replace_own();
      for (const int batch : kBatches) {
        profile.measurements.push_back(absolute(profile, sizes, kind, rates, batch, precision));
      }
    } else {
      problems.add(where(kind), refusal(profile, kind, own, precision, complete(rates)));
    }
  }
  problems.throw_if_any();
  return profile;
}

}  // namespace hetpipe
