// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/lateness.h"

#include <algorithm>

#include "partitioner/plan/system.h"

namespace hetpipe {
namespace {

// A virtual worker sees its own updates of these waves: the others drift apart from it, which costs
// less than updates that all of them miss.
constexpr double kOfBound = 0.125;

}  // namespace

double unseen_samples(const Plan& plan) {
  const System system = composition(plan);
  const double in_flight = traits(system.schedule).has_flush ? 1 : plan.in_flight;
  const auto round = static_cast<double>(plan.global_batch());
  if (!traits(system.sync).waves() || !plan.server) return round * in_flight;
  const double own = round / static_cast<double>(plan.virtual_workers.size());
  int distance = plan.server->pulls_newest() ? 0 : plan.server->clock_distance;
  if (traits(system.sync).rounds) distance = std::max(distance, 1);
  return own * in_flight +
         (round - own) * (1 + 1.5 * (in_flight - 1) +
                          kOfBound * distance * static_cast<double>(plan.wave_length()));
}

double samples_factor(const Plan& plan, double critical_batch) {
  return 1 + unseen_samples(plan) / critical_batch;
}

double least_samples_factor(std::size_t virtual_workers, int minibatch, double critical_batch) {
  return 1 + static_cast<double>(virtual_workers) * minibatch / critical_batch;
}

}  // namespace hetpipe
