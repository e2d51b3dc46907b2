// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_seeds.h"

#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

constexpr std::array kAccumulated{2, 4, 8};
constexpr std::int64_t kPartitionWork = 2'000'000;  // of HetPipe's planner; some ten milliseconds

// Every wave, each virtual worker that has no device on a server's node sends all its gradients
// into the servers' interfaces.
double server_bound(const PlanRequest& request, const Allocation& composition) {
  if (request.placement != "default") return kInfinity;
  const PlanServer server = server_of(request);
  double bytes = 0;
  for (const std::int64_t of_layer : own_parameter_bytes(request.profile)) {
    bytes += static_cast<double>(of_layer);
  }
  double bandwidth = request.cluster.inter_node.bandwidth;
  for (const LinkBetween& rule : request.cluster.between) {
    bandwidth = std::max(bandwidth, rule.link.bandwidth);
  }
  const std::set<std::string> nodes(server.nodes.begin(), server.nodes.end());
  const auto outside = std::count_if(
      composition.begin(), composition.end(), [&](const std::vector<DeviceName>& devices) {
        return std::none_of(devices.begin(), devices.end(),
                            [&](const DeviceName& device) { return nodes.contains(device.node); });
      });
  if (outside == 0 || bytes <= 0 || nodes.empty()) return kInfinity;
  const double wave_seconds =
      static_cast<double>(outside) * bytes / (bandwidth * static_cast<double>(nodes.size()));
  const double samples = static_cast<double>(composition.size()) *
                         request.in_flight.value_or(kMostInFlight) *
                         request.minibatch.value_or(default_minibatch(request));
  return samples / wave_seconds;
}

// Without any message, and by the bytes of synchronisation alone.
double policy_bound(const PlanRequest& request, std::span<const double> kind_speed) {
  try {
    const Allocation composition =
        allocate(request.cluster, *request.policy, kind_speed, request.virtual_workers);
    return std::min(ideal_throughput(request.cluster, kind_speed, composition),
                    server_bound(request, composition));
  } catch (const UserError&) {
    return kInfinity;  // the planner says why
  }
}

}  // namespace

std::vector<Seed> seeds_of(const SearchRow& row, std::span<const double> kind_speed,
                           const std::vector<SeedPlanner>& more, bool quick,
                           const std::shared_ptr<ModelTables>& tables) {
  std::vector<Seed> seeds;
  const PlannerRule planner = row.parts.planner;
  const auto add = [&](std::string name, PlanRequest request, double bound, std::string policy) {
    request.of_search = true;
    request.tables = tables;
    const auto plan = [request = std::move(request)](double least_worth) mutable {
      request.least_worth = least_worth;
      return candidate_plan(request);
    };
    seeds.push_back({std::move(name), plan, bound, std::move(policy)});
  };
  const std::string name = row.request.system + "'s planner";
  // Data parallelism's take some milliseconds.
  const bool wanted = quick == (planner == PlannerRule::data_parallel);
  if (wanted && planner != PlannerRule::search && planner != PlannerRule::hetpipe) {
    add(name, row.request, kInfinity, "");
  }
  // Accumulated gradients let more devices hold the model, and are exchanged less often.
  if (wanted && planner == PlannerRule::data_parallel && !row.request.micro_batches) {
    for (const int slices : kAccumulated) {
      PlanRequest request = row.request;
      if (request.minibatch && *request.minibatch % slices != 0) continue;
      request.micro_batches = slices;
      add(name + format(", %d micro-batches", slices), request, kInfinity, "");
    }
  }
  if (quick) return seeds;
  for (const SeedPlanner& other : more) {
    seeds.push_back({other.name,
                     [&other, request = row.request](double) { return other.plan(request); },
                     kInfinity, "", false});
  }
  if (planner != PlannerRule::hetpipe) return seeds;
  auto placements = row.request.search.placements;
  if (placements.empty()) placements = {row.request.placement};
  const auto cuts = share_cuts();
  for (const std::string& placement : placements) {
    for (const std::string& policy : allocation_policies()) {
      PlanRequest request = row.request;
      request.policy = policy;
      request.placement = placement;
      request.partition_work = kPartitionWork;
      request.shared_cuts = cuts;
      const double bound = policy_bound(request, kind_speed);
      add(placements.size() > 1 ? policy + ", " + placement : policy, request, bound, policy);
    }
  }
  return seeds;
}

}  // namespace hetpipe
