// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/profile.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cluster/device_type.h"
#include "partitioner/profile/estimate.h"

namespace hetpipe {
namespace {

std::vector<const Measurement*> measured_on(const Profile& profile, const std::string& device) {
  std::vector<const Measurement*> result;
  for (const Measurement& m : profile.measurements) {
    if (same_device_type(m.device, device)) result.push_back(&m);
  }
  std::sort(result.begin(), result.end(), [](auto a, auto b) { return a->batch < b->batch; });
  return result;
}

// One layer's time at `batch` by the line through two measurements, or in proportion to one.
double seconds_at(double batch, double low_batch, double low, double high_batch, double high) {
  if (low_batch == high_batch) return low * batch / low_batch;
  const double per_sample = (high - low) / (high_batch - low_batch);
  const double fixed = low - per_sample * low_batch;
  if (batch < low_batch) {  // extrapolated downwards
    if (per_sample < 0) return low;
    return fixed < 0 ? low * batch / low_batch : fixed + per_sample * batch;
  }
  if (batch > high_batch && per_sample < 0) return high;
  return low + per_sample * (batch - low_batch);
}

std::vector<double> at_batch(const Measurement& low, const Measurement& high, int batch,
                             std::vector<double> Measurement::*member, double factor) {
  std::vector<double> result;
  for (std::size_t l = 0; l < (low.*member).size(); ++l) {
    result.push_back(factor *
                     seconds_at(batch, low.batch, (low.*member)[l], high.batch, (high.*member)[l]));
  }
  return result;
}

constexpr double kMostOutputBytes =
    1e13;  // of all layers' outputs; sums of it stay far from overflow

std::vector<std::int64_t> scaled(const std::vector<std::int64_t>& bytes, int from, int to) {
  double sum = 0;
  for (const std::int64_t value : bytes) sum += static_cast<double>(value) * to / from;
  if (sum > kMostOutputBytes) {
    throw UserError("",
                    format("%d samples per call need %s of activations (more than %s, which no "
                           "device holds). Use a smaller minibatch.",
                           to, format_bytes(sum).c_str(), format_bytes(kMostOutputBytes).c_str()));
  }
  std::vector<std::int64_t> result;
  for (const std::int64_t value : bytes) {
    result.push_back(std::llround(static_cast<double>(value) * to / from));
  }
  return result;
}

const std::vector<double>& update_of(const Measurement& m, Updates updates) {
  const bool damped = updates == Updates::damped && !m.damped_update.empty();
  const bool orthogonal = updates == Updates::orthogonal && !m.orthogonal_update.empty();
  return damped ? m.damped_update : orthogonal ? m.orthogonal_update : m.update;
}

// A whole step's time, divided among the layers by their parameters; of layers without any, alike.
std::vector<double> shares_of_step(const Profile& profile, double step) {
  double all = 0;
  for (const ProfileLayer& layer : profile.layers) {
    all += static_cast<double>(layer.parameter_bytes);
  }
  std::vector<double> seconds;
  for (const ProfileLayer& layer : profile.layers) {
    seconds.push_back(all > 0 ? step * static_cast<double>(layer.parameter_bytes) / all
                              : step / static_cast<double>(profile.layers.size()));
  }
  return seconds;
}

std::vector<std::int64_t> scratch_of(const Profile& profile, Updates updates, bool narrow) {
  std::vector<std::int64_t> bytes;
  for (const ProfileLayer& layer : profile.layers) {
    bytes.push_back(0);
    for (const MatrixSides& matrix : layer.matrices) {
      bytes.back() = std::max(bytes.back(), scratch_bytes(matrix, updates, narrow));
    }
  }
  return bytes;
}

}  // namespace

bool update_is_step(const Profile& profile, const Measurement& measurement) {
  const std::vector<double>& update = measurement.update;
  if (update.empty()) return false;
  if (measurement.update_is_step) return *measurement.update_is_step;
  const auto differ = [](const auto& values, const auto& of) {
    return std::any_of(values.begin(), values.end(),
                       [&](const auto& value) { return of(value) != of(values.front()); });
  };
  return update.front() > 0 && !differ(update, [](double seconds) { return seconds; }) &&
         differ(profile.layers, [](const ProfileLayer& layer) { return layer.parameter_bytes; });
}

std::vector<const Measurement*> measurements_for(const Profile& profile, const DeviceKind& kind) {
  auto measured = measured_on(profile, kind.name);
  return measured.empty() && kind.emulate ? measured_on(profile, kind.emulate->of) : measured;
}

LayerCosts costs_on(const Profile& profile, const DeviceKind& kind, int batch, Updates updates) {
  ensure(batch > 0, "costs_on needs at least one sample");
  const auto measured = measurements_for(profile, kind);
  const bool emulated = !measured.empty() && !same_device_type(measured.front()->device, kind.name);
  const double factor = emulated ? kind.emulate->slowdown : 1;
  if (measured.empty()) {
    std::vector<std::string> known;
    for (const Measurement& m : profile.measurements) {
      if (std::find(known.begin(), known.end(), m.device) == known.end()) known.push_back(m.device);
    }
    throw UserError("", "the profile of '" + profile.model + "' has no measurement on '" +
                            kind.name + (kind.emulate ? "' or '" + kind.emulate->of + "'" : "'") +
                            " (it covers: " + (known.empty() ? "nothing" : join(known, ", ")) +
                            "). Measure it on such a machine: hetpipe profile --model " +
                            profile.model + ".");
  }
  // The two measured batches whose line is taken: those around `batch`, or the two nearest on its
  // side; one and the same at a measured batch and where there is only one.
  std::size_t above = 0;  // the first measured batch that is not smaller
  while (above < measured.size() && measured[above]->batch < batch) ++above;
  const Measurement* low = nullptr;
  const Measurement* high = nullptr;
  if (measured.size() == 1 || (above < measured.size() && measured[above]->batch == batch)) {
    low = high = measured[std::min(above, measured.size() - 1)];
  } else {
    const std::size_t second = std::clamp(above, std::size_t{1}, measured.size() - 1);
    low = measured[second - 1];
    high = measured[second];
  }
  const Measurement* nearest =
      std::abs(batch - low->batch) <= std::abs(high->batch - batch) ? low : high;

  LayerCosts costs;
  costs.forward = at_batch(*low, *high, batch, &Measurement::forward, factor);
  costs.backward = at_batch(*low, *high, batch, &Measurement::backward, factor);
  costs.update = update_of(*low, updates);  // depends on the parameters alone, not on the batch
  costs.update.resize(profile.layers.size(), 0.0);
  costs.update_is_step = update_is_step(profile, *low);
  if (costs.update_is_step) {
    costs.update =
        shares_of_step(profile, *std::max_element(costs.update.begin(), costs.update.end()));
  }
  for (double& seconds : costs.update) seconds *= factor;
  if (updates != Updates::plain) {
    const bool narrow = nearest->precision && two_bytes(*nearest->precision);
    costs.update_bytes = scratch_of(profile, updates, narrow);
  }
  if (low->weight_gradient.empty() || high->weight_gradient.empty()) {
    // Two products of equal size, one for the input and one for the weights.
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
      const ProfileLayer& layer = profile.layers[l];
      const bool learns = layer.parameter_bytes > 0 || !layer.shares.empty();
      costs.weight_gradient.push_back(learns ? costs.backward[l] / 2 : 0);
    }
  } else {
    costs.weight_gradient = at_batch(*low, *high, batch, &Measurement::weight_gradient, factor);
  }
  costs.output_bytes = scaled(nearest->output_bytes, nearest->batch, batch);
  costs.estimated = !low->estimate.empty() || !high->estimate.empty();
  costs.stash_bytes = scaled(nearest->stash_bytes, nearest->batch, batch);
  costs.scratch_bytes = scaled(nearest->scratch_bytes, nearest->batch, batch);
  costs.own_memory = !same_device_type(measured.front()->device, kEmulatingDevice) &&
                     !(kind.emulate && kind.emulate->of == kEmulatingDevice);
  return costs;
}

}  // namespace hetpipe
