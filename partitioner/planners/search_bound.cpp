// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "base/error.h"

namespace hetpipe {
namespace {

constexpr int kSteps = 200;

// No more samples are computed in one call than costs_on() has times for: beyond, no device holds
// the activations.
int largest_call(const Profile& profile, const DeviceKind& kind, int minibatch) {
  const auto known = [&](int batch) {
    try {
      costs_on(profile, kind, batch);
      return true;
    } catch (const UserError&) {
      return false;
    }
  };
  if (known(minibatch)) return minibatch;
  int fits = 1;
  for (int too_many = minibatch; too_many - fits > 1;) {
    const int middle = fits + (too_many - fits) / 2;
    (known(middle) ? fits : too_many) = middle;
  }
  return fits;
}

// Seconds per sample of every layer, forward and backward, at the best batch of 1 ... minibatch.
// Between two measured batches the time is linear in the batch, outside them in proportion, so the
// time per sample is monotone in between: its least value is at a measured batch or at an end.
std::vector<double> least_seconds(const Profile& profile, const DeviceKind& kind, int minibatch) {
  const int largest = largest_call(profile, kind, minibatch);
  std::set<int> batches{1, largest};
  for (const Measurement& m : profile.measurements) {
    if (m.batch < largest) batches.insert(m.batch);
  }
  for (int b = 2; b < largest; b *= 2) batches.insert(b);
  std::vector<double> least(profile.layers.size(), std::numeric_limits<double>::infinity());
  for (const int batch : batches) {
    const LayerCosts costs = costs_on(profile, kind, batch);
    for (std::size_t l = 0; l < least.size(); ++l) {
      least[l] = std::min(least[l], (costs.forward[l] + costs.backward[l]) / batch);
    }
  }
  return least;
}

}  // namespace

double throughput_bound(const Cluster& cluster, const Profile& profile, int minibatch) {
  std::vector<double> count(cluster.kinds.size(), 0);  // devices of each kind
  for (const Node& node : cluster.nodes) {
    for (const int kind : node.kinds) ++count[static_cast<std::size_t>(kind)];
  }
  std::vector<std::vector<double>> seconds;  // [used kind][layer]
  std::vector<double> devices;
  std::vector<double> weights;
  for (std::size_t k = 0; k < cluster.kinds.size(); ++k) {
    if (count[k] == 0) continue;
    seconds.push_back(least_seconds(profile, cluster.kinds[k], minibatch));
    devices.push_back(count[k]);
    double sum = 0;
    for (const double s : seconds.back()) sum += s;
    weights.push_back(1 / std::max(sum, 1e-300));
  }
  double bound = std::numeric_limits<double>::infinity();
  for (int step = 1; step <= kSteps; ++step) {
    // Who would do each layer at these prices, and how full that makes every kind.
    std::vector<double> load(weights.size(), 0);
    double work = 0;
    double capacity = 0;
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
      std::size_t cheapest = 0;
      for (std::size_t k = 1; k < weights.size(); ++k) {
        if (weights[k] * seconds[k][l] < weights[cheapest] * seconds[cheapest][l]) cheapest = k;
      }
      work += weights[cheapest] * seconds[cheapest][l];
      load[cheapest] += seconds[cheapest][l];
    }
    for (std::size_t k = 0; k < weights.size(); ++k) capacity += weights[k] * devices[k];
    if (work <= 0) return bound;
    bound = std::min(bound, capacity / work);
    // A kind that is asked for more than it has becomes dearer, the others cheaper.
    const double rate = capacity / work;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const double excess = std::clamp(rate * load[k] / devices[k] - 1, -1.0, 1.0);
      weights[k] *= std::exp(0.2 * excess / std::sqrt(static_cast<double>(step)));
    }
  }
  return bound;
}

}  // namespace hetpipe
