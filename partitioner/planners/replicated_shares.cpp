// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <queue>
#include <tuple>

#include "base/error.h"
#include "partitioner/planners/replicated.h"

// How a micro-batch is split over the replicas of a stage.
namespace hetpipe {
std::vector<int> proportional_shares(int samples, std::span<const double> speeds) {
  const std::size_t count = speeds.size();
  ensure(count > 0 && samples >= static_cast<int>(count), "every replica takes a sample");
  ensure(std::all_of(speeds.begin(), speeds.end(), [](double s) { return s > 0; }),
         "speeds are positive");
  // Those whose part by speed is less than one sample take one; the others share the rest by speed.
  std::vector<bool> one(count, false);
  double time = 0;  // until all of them are done
  for (bool settled = false; !settled;) {
    double rest = samples;
    double speed = 0;
    for (std::size_t i = 0; i < count; ++i) (one[i] ? rest : speed) += one[i] ? -1 : speeds[i];
    time = speed > 0 ? rest / speed : 0;
    settled = true;
    for (std::size_t i = 0; i < count; ++i) {
      if (one[i] || time * speeds[i] >= 1) continue;
      one[i] = true;
      settled = false;
    }
  }
  // Rounded down nobody has more than in the best split; what is left over goes sample by sample to
  // whoever is done first with one more, of equals to the one that lost most by the rounding.
  std::vector<int> shares;
  using Next = std::tuple<double, double, std::size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  const auto offer = [&](std::size_t i) {
    next.emplace((shares[i] + 1) / speeds[i], shares[i] - time * speeds[i], i);
  };
  int given = 0;
  for (std::size_t i = 0; i < count; ++i) {
    shares.push_back(std::max(1, static_cast<int>(time * speeds[i])));
    given += shares[i];
    offer(i);
  }
  for (; given < samples; ++given) {
    const std::size_t i = std::get<2>(next.top());
    next.pop();
    ++shares[i];
    offer(i);
  }
  ensure(given == samples, "the parts add up to the whole");
  if (std::all_of(shares.begin(), shares.end(), [&](int s) { return s == shares[0]; })) return {};
  return shares;
}

StageShares::StageShares(const PlanRequest& request, int samples)
    : samples_(samples), costs_(costs_by_kind(request, samples)) {}

std::vector<int> StageShares::of(int first, int end, std::span<const int> kinds) const {
  std::vector<double> speeds;
  for (const int kind : kinds) {
    const LayerCosts& costs = *costs_[static_cast<std::size_t>(kind)];
    double seconds = 0;
    for (int l = first; l < end; ++l) {
      const auto at = static_cast<std::size_t>(l);
      seconds += costs.forward[at] + costs.backward[at];
    }
    speeds.push_back(seconds > 0 ? 1 / seconds : 1);
  }
  return proportional_shares(samples_, speeds);
}

void share_by_speed(const PlanRequest& request, Plan& plan) {
  if (request.equal_shares) return;
  for (std::size_t v = 0; v < plan.virtual_workers.size(); ++v) {
    std::optional<StageShares> shares;
    for (PlanStage& stage : plan.virtual_workers[v].stages) {
      if (stage.devices.size() < 2) continue;
      if (!shares) {
        const int minibatch = plan.minibatch_of(VirtualWorkerId{static_cast<int>(v)});
        shares.emplace(request, minibatch / plan.micro_batches);
      }
      std::vector<int> kinds;
      for (const DeviceName& device : stage.devices) {
        kinds.push_back(kind_index(request.cluster, device));
      }
      stage.shares = shares->of(stage.first_layer, stage.end_layer, kinds);
    }
  }
}

}  // namespace hetpipe
