// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/estimated.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace hetpipe {
namespace {

// Batches of an absolute estimate. Between two of them times are interpolated: where a layer's
// operations take their least time at the one and not at the other, by at most a sixth too much.
constexpr std::array kBatches{1, 2, 4, 8, 16, 32, 64, 128};

// Bytes that a training step of SGD with momentum reads and writes per byte of parameters: weight,
// gradient and velocity in, weight and velocity out.
constexpr double kUpdateTraffic = 5;

// As an estimate states it: nothing for fp32, the default.
std::optional<Precision> stated(Precision precision) {
  return precision == Precision::fp32 ? std::nullopt : std::optional(precision);
}

double element_share(Precision precision) { return two_bytes(precision) ? 0.5 : 1; }

double scaled(double seconds, const Work& from_work, const Work& to_work, const Rates& from,
              const Rates& to) {
  if (from_work.flops > 0) {
    return seconds * roofline(to_work, to) / roofline(from_work, from);
  }
  const double traffic = std::min(seconds, from_work.bytes / from.bandwidth);
  return traffic * from.bandwidth / to.bandwidth + (seconds - traffic) * from.flops / to.flops;
}

Measurement absolute(const Profile& profile, const Sizes& sizes, const EstimatedKind& of,
                     int batch) {
  const Rates& rates = of.rates;
  Measurement result;
  result.device = of.kind.name;
  result.batch = batch;
  result.precision = stated(of.precision);
  result.estimate = kFromFlopsAndBytes;
  const double share = element_share(of.precision);
  const bool matrices = std::any_of(profile.layers.begin(), profile.layers.end(),
                                    [](const ProfileLayer& l) { return !l.matrices.empty(); });
  std::vector<double> outputs;
  for (const double bytes : sizes.output) outputs.push_back(bytes * batch);
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    const Work forward = forward_work(profile, l, outputs, batch, rates.gpus, share);
    const Work backward = backward_work(layer, forward, batch);
    const double exchange = group_all_reduce_seconds(layer.group_all_reduce_bytes * batch * share,
                                                     rates.gpus, of.intra_node);
    result.forward.push_back(roofline(forward, rates) + exchange);
    result.backward.push_back(roofline(backward, rates) + exchange);
    result.update.push_back(kUpdateTraffic * static_cast<double>(layer.parameter_bytes) *
                            rates.gpus / rates.bandwidth);
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
    result.output_bytes.push_back(std::llround(outputs[l] * share));
    result.stash_bytes.push_back(std::llround(sizes.stash[l] * batch * share));
  }
  return result;
}

}  // namespace

Measurement relative_estimate(const Profile& profile, const Measurement& measured,
                              const Rates& from, const EstimatedKind& of) {
  const Rates& to = of.rates;
  const Precision precision = of.precision;
  Measurement result = measured;
  result.device = of.kind.name;
  result.precision = stated(precision);
  result.estimate = "from " + measured.device + "'s measurement " +
                    (measured.precision && *measured.precision != precision
                         ? "in " + to_string(*measured.precision) + " "
                         : "") +
                    "by roofline";
  const std::vector<double> outputs(measured.output_bytes.begin(), measured.output_bytes.end());
  const auto exchange = [&](const ProfileLayer& layer, int gpus, Precision in) {
    return group_all_reduce_seconds(
        layer.group_all_reduce_bytes * measured.batch * element_share(in), gpus, of.intra_node);
  };
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    const Work forward_from = forward_work(profile, l, outputs, measured.batch, from.gpus);
    const Work forward_to = forward_work(profile, l, outputs, measured.batch, to.gpus);
    const double before = exchange(layer, from.gpus, measured.precision.value_or(precision));
    const double after = exchange(layer, to.gpus, precision);
    const auto of_pass = [&](double seconds, const Work& work_from, const Work& work_to) {
      return scaled(std::max(0.0, seconds - before), work_from, work_to, from, to) + after;
    };
    result.forward[l] = of_pass(measured.forward[l], forward_from, forward_to);
    result.backward[l] =
        of_pass(measured.backward[l], backward_work(layer, forward_from, measured.batch),
                backward_work(layer, forward_to, measured.batch));
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
    for (auto* bytes_of : {&result.output_bytes, &result.stash_bytes, &result.scratch_bytes}) {
      for (std::int64_t& bytes : *bytes_of) bytes = two_bytes(precision) ? bytes / 2 : bytes * 2;
    }
  }
  return result;
}

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
    const double share = m.precision ? element_share(*m.precision) : 1;
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
      const auto per_sample = [&](std::int64_t bytes) {
        return static_cast<double>(bytes) / m.batch / share;
      };
      sizes.output[l] = std::max(sizes.output[l], per_sample(m.output_bytes[l]));
      sizes.stash[l] = std::max(sizes.stash[l], per_sample(m.stash_bytes[l]));
    }
  }
  return sizes;
}

std::vector<Measurement> absolute_estimates(const Profile& profile, const Sizes& sizes,
                                            const EstimatedKind& of) {
  std::vector<Measurement> estimates;
  for (const int batch : kBatches) estimates.push_back(absolute(profile, sizes, of, batch));
  return estimates;
}

}  // namespace hetpipe
