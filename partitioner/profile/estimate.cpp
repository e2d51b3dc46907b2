// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/estimate.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/cluster/device_type.h"
#include "partitioner/profile/estimated.h"

namespace hetpipe {
namespace {

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
Rates rates_of_measured(const Cluster& cluster, const PrecisionChoice& choice, const Measurement& m,
                        double launch_latency) {
  const auto rates = [&](const DeviceKind& kind) {
    const auto stated = m.precision ? m.precision : choice.of(m.device);
    return rates_of(kind, stated.value_or(Precision::fp32), launch_latency);
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

PrecisionChoice measured_precisions(const Profile& profile, const Cluster& cluster) {
  PrecisionChoice choice;
  for (const DeviceKind& kind : cluster.kinds) {
    const auto measured = precision_measured(profile, kind.name);
    if (measured && *measured != choice.every) choice.of_kind[kind.name] = *measured;
  }
  return choice;
}

Profile with_estimates(Profile profile, const Cluster& cluster, const PrecisionChoice& choice,
                       const KindPlace& place, std::string_view runtime) {
  const std::vector<Measurement> measured = profile.measurements;
  const bool absolutes = has_flops(profile);
  const double launch_latency = usual_launch_latency(runtime);
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
    const Rates rates = rates_of(kind, precision, launch_latency);
    const EstimatedKind estimated{kind, rates, precision, cluster.intra_node};
    // Only true measurements are scaled, and all batches of one kind.
    std::string nearest_kind;
    Rates nearest_rates;
    for (const Measurement& m : measured) {
      const Rates from = rates_of_measured(cluster, choice, m, launch_latency);
      if (!m.estimate.empty() || !from.complete() || !rates.complete()) continue;
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
        profile.measurements.push_back(relative_estimate(profile, m, nearest_rates, estimated));
      }
    } else if (absolutes && rates.complete()) {
      replace_own();
      for (Measurement& made : absolute_estimates(profile, sizes, estimated)) {
        profile.measurements.push_back(std::move(made));
      }
    } else {
      problems.add(where(kind), refusal(profile, kind, own, precision, rates.complete()));
    }
  }
  problems.throw_if_any();
  return profile;
}

}  // namespace hetpipe
