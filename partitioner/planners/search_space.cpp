// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_space.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/partition_model.h"
#include "partitioner/planners/replicated.h"
#include "partitioner/planners/search_compositions.h"

namespace hetpipe {
namespace {

constexpr int kMostMicroBatches = 64;
constexpr int kUsualMicroBatches = 8;  // of the default minibatch

// Every virtual worker is one device.
bool without_pipeline(const System& parts) { return parts.planner == PlannerRule::data_parallel; }

bool slices_minibatches(const System& parts) {
  return !traits(parts.schedule).whole_minibatches && !without_pipeline(parts);
}

// A pipeline of micro-batches wants several, each of a batch that was measured.
int minibatch_of(const PlanRequest& request, const System& parts) {
  if (request.minibatch) return *request.minibatch;
  const bool several = slices_minibatches(parts) && !request.micro_batches;
  return default_minibatch(request) * (several ? kUsualMicroBatches : 1);
}

int smallest_measured(const Profile& profile) {
  int smallest = 0;
  for (const Measurement& m : profile.measurements) {
    if (smallest == 0 || m.batch < smallest) smallest = m.batch;
  }
  return std::max(smallest, 1);
}

// Nodes on which devices of the plan compute, or all others.
std::vector<std::string> nodes_of(const Cluster& cluster, const Plan& plan, bool others) {
  std::set<std::string> used;
  for (const DeviceName& device : devices_of(plan)) used.insert(device.node);
  std::vector<std::string> nodes;
  for (const Node& node : cluster.nodes) {
    if (used.contains(node.name) != others) nodes.push_back(node.name);
  }
  return nodes;
}

// A node with devices of which the plan has none.
bool leaves_a_node(const Cluster& cluster, const Plan& plan) {
  const std::vector<std::string> others = nodes_of(cluster, plan, true);
  return std::any_of(others.begin(), others.end(), [&](const std::string& name) {
    return !at(cluster.nodes, cluster.find_node(name)->value).kinds.empty();
  });
}

// The first row of that planner, with another sync.
void add_sync(std::vector<SearchRow>& rows, PlannerRule planner, SyncRule sync) {
  const auto first = std::find_if(
      rows.begin(), rows.end(), [&](const SearchRow& row) { return row.parts.planner == planner; });
  if (first == rows.end()) return;
  SearchRow row = *first;
  row.request.sync = to_string(sync);
  row.parts.sync = sync;
  if (!why_senseless(row.parts).empty()) return;
  rows.push_back(std::move(row));
}

// Plans do not limit what DAPPLE holds: its warm-up is then that of PipeDream-flush.
ScheduleRule in_plans(ScheduleRule rule) {
  return rule == ScheduleRule::flush_1f1b ? ScheduleRule::dapple_pa : rule;
}

}  // namespace

std::vector<SearchRow> search_rows(const PlanRequest& request) {
  if (request.search.systems == SystemChoice::requested) {
    SearchRow row{request, composition(request)};
    row.minibatch = minibatch_of(request, row.parts);
    row.request.policy.reset();
    std::vector<SearchRow> rows = {std::move(row)};
    if (may_give_servers_steps(request)) {
      add_sync(rows, PlannerRule::hetpipe, SyncRule::server_step);
    }
    return rows;
  }
  std::vector<SearchRow> rows;
  std::set<std::tuple<ScheduleRule, WeightRule, SyncRule>> seen;
  for (const System& system : systems()) {
    SearchRow row{request, {}};
    row.request.system = system.name;
    row.request.policy.reset();
    row.request.search = {SystemChoice::requested, request.search.clock_distances,
                          request.search.placements};
    Plan parts;
    parts.system = system.name;
    parts.schedule = request.schedule;
    parts.weights = request.weights;
    parts.sync = request.sync;
    row.parts = composition(parts);
    row.minibatch = minibatch_of(request, row.parts);
    if (!trains_as_serial(row.parts) || !why_senseless(row.parts).empty()) continue;
    // Virtual workers of one device are in the others; there remains the planner.
    const bool planner_alone = without_pipeline(row.parts);
    if (!planner_alone &&
        !seen.insert({in_plans(row.parts.schedule), row.parts.weights, row.parts.sync}).second) {
      continue;
    }
    rows.push_back(std::move(row));
  }
  if (weighs_syncs(request)) {
    add_sync(rows, PlannerRule::hetpipe, SyncRule::outer);
    add_sync(rows, PlannerRule::data_parallel, SyncRule::outer);
  }
  if (may_give_servers_steps(request)) {
    add_sync(rows, PlannerRule::hetpipe, SyncRule::server_step);
  }
  return rows;
}

SearchSpace::SearchSpace(const SearchRow& row, int minibatch, CutCache& cuts,
                         const std::vector<Packing>& packings, std::int64_t cut_work)
    : row_(row),
      minibatch_(minibatch),
      has_few_devices_(row.request.cluster.devices().size() <= kFewInSpace),
      blank_(blank_plan(row.request)),
      known_(cuts),
      packings_(packings),
      cut_work_(cut_work) {
  blank_.minibatch = minibatch;
  // The row of data parallelism in rounds is that of all flushed pipelines in rounds.
  if (!without_pipeline(row_.parts) || traits(row_.parts.sync).rounds) {
    max_stages_ = static_cast<int>(row_.request.profile->layers.size());
  }
}

bool SearchSpace::chooses_in_flight() const {
  return traits(row_.parts.schedule).chooses_in_flight;
}

std::vector<int> SearchSpace::depths(int most_in_flight) const {
  std::vector<int> result;
  if (chooses_in_flight()) {
    if (without_pipeline(row_.parts)) return {row_.request.in_flight.value_or(1)};
    if (row_.request.in_flight) return {*row_.request.in_flight};
    for (int nm = 1; nm <= most_in_flight; ++nm) result.push_back(nm);
    return result;
  }
  if (row_.request.micro_batches) return {*row_.request.micro_batches};
  const int least = row_.request.minibatch ? 1 : smallest_measured(row_.request.profile);
  const int most = std::min(std::max(minibatch_ / least, 1), kMostMicroBatches);
  for (int m = 1; m <= most; ++m) {
    if (minibatch_ % m == 0) result.push_back(m);
  }
  return result;
}

int& SearchSpace::depth_of(const SearchSpace& space, Knobs& knobs) {
  return space.chooses_in_flight() ? knobs.in_flight : knobs.micro_batches;
}

std::vector<Knobs> SearchSpace::with_depth(const Knobs& knobs, int most_in_flight) const {
  std::vector<Knobs> result;
  for (const int depth : depths(most_in_flight)) {
    result.push_back(knobs);
    depth_of(*this, result.back()) = depth;
  }
  return result;
}

bool SearchSpace::chooses_server_nodes() const {
  return has_server() && row_.request.server_nodes.empty() &&
         !row_.request.search.placements.empty();
}

std::vector<Knobs> SearchSpace::with_near_depths(const Knobs& knobs) const {
  Knobs near = knobs;
  int& depth = depth_of(*this, near);
  const std::vector<int> all = depths(depth + 1);
  const auto at = std::find(all.begin(), all.end(), depth);
  if (at == all.end()) return {knobs};
  std::vector<Knobs> result;
  const auto end = std::min(at + 2, all.end());
  for (auto d = at == all.begin() ? at : at - 1; d < end; ++d) {
    depth = *d;
    result.push_back(near);
  }
  return result;
}

std::vector<Knobs> SearchSpace::with_servers(const Knobs& knobs, const Plan& plan) const {
  if (!has_server()) return {knobs};
  // Outer steps, and those of the servers' optimizer, do not bear waves that are many late.
  const SyncTraits& sync = traits(row_.parts.sync);
  const bool chooses = !row_.request.search.clock_distances.empty() && !sync.rounds && !sync.steps;
  const auto distances = chooses ? row_.request.search.clock_distances
                                 : std::vector<int>{row_.request.clock_distance.value_or(
                                       usual_clock_distance(row_.parts))};
  const auto placements = row_.request.search.placements.empty()
                              ? std::vector<std::string>{row_.request.placement}
                              : row_.request.search.placements;
  std::vector<int> nodes{kUsualNodes};
  if (chooses_server_nodes()) {
    nodes.push_back(kAllNodes);
    if (has_few_devices_ && leaves_a_node(row_.request.cluster, plan)) {
      nodes.insert(nodes.end(), {kPlansNodes, kOtherNodes});
    }
  }
  std::vector<Knobs> result;
  for (const int distance : distances) {
    for (const std::string& placement : placements) {
      for (const int servers : nodes) {
        if (servers != kUsualNodes && placement == "local") continue;  // it has them all anyway
        result.push_back(knobs);
        result.back().clock_distance = distance;
        result.back().placement = placement;
        result.back().server_nodes = servers;
      }
    }
  }
  return result;
}

std::vector<Knobs> SearchSpace::with_one_server(const Knobs& knobs) const {
  std::vector<Knobs> result;
  if (!chooses_server_nodes() || !has_few_devices_ || knobs.placement == "local") return result;
  for (int node = 0; node < static_cast<int>(row_.request.cluster.nodes.size()); ++node) {
    result.push_back(knobs);
    result.back().server_nodes = node;
  }
  return result;
}

Knobs SearchSpace::first_knobs(int stages) const {
  Knobs knobs = with_servers({}, blank_).front();
  knobs.in_flight = row_.request.in_flight.value_or(1);
  knobs.micro_batches = row_.request.micro_batches.value_or(1);
  const std::vector<int> all = depths(stages);
  // As many in flight as there are stages keep all of them busy; a flush wants a few times that.
  const int wanted = chooses_in_flight() ? stages : 4 * stages;
  int depth = all.front();
  for (const int d : all) {
    if (d <= wanted) depth = d;
  }
  depth_of(*this, knobs) = depth;
  return knobs;
}

Knobs SearchSpace::knobs_of(const Plan& plan) const {
  Knobs knobs = with_servers({}, plan).front();
  knobs.in_flight = plan.in_flight;
  knobs.micro_batches = plan.micro_batches;
  if (!plan.server) return knobs;
  knobs.clock_distance = plan.server->clock_distance;
  knobs.placement = plan.server->placement;
  std::vector<Knobs> all = with_servers(knobs, plan);
  const std::vector<Knobs> single = with_one_server(knobs);
  all.insert(all.end(), single.begin(), single.end());
  for (const Knobs& other : all) {
    if (other.clock_distance == knobs.clock_distance && other.placement == knobs.placement &&
        server(other, plan).nodes == plan.server->nodes) {
      knobs.server_nodes = other.server_nodes;
      break;
    }
  }
  return knobs;
}

Plan SearchSpace::with_knobs(Plan plan, const Knobs& knobs) const {
  const int slices = plan.micro_batches;
  plan.in_flight = knobs.in_flight;
  plan.micro_batches = knobs.micro_batches;
  plan.predicted.reset();
  for (PlanVirtualWorker& worker : plan.virtual_workers) {
    for (PlanStage& stage : worker.stages) stage.predicted.reset();
  }
  // Where a replica has no sample, the plan does not run; whoever simulates it is told so.
  if (slices != plan.micro_batches && replicated(plan)) share(plan);
  if (!has_server()) {
    plan.server.reset();
    return plan;
  }
  plan.server = server(knobs, plan);
  return plan;
}

PlanServer SearchSpace::server(const Knobs& knobs, const Plan& plan) const {
  if (knobs.server_nodes == kPlansNodes || knobs.server_nodes == kOtherNodes) {
    Knobs usual = knobs;
    usual.server_nodes = kUsualNodes;
    PlanServer result = server(usual, plan);
    // A plan of other virtual workers may leave no other nodes.
    const bool others = knobs.server_nodes == kOtherNodes;
    auto nodes = nodes_of(row_.request.cluster, plan, others);
    if (!nodes.empty()) result.nodes = std::move(nodes);
    return result;
  }
  const auto key = std::tuple(knobs.clock_distance, knobs.placement, knobs.server_nodes);
  if (const auto known = servers_.find(key); known != servers_.end()) return known->second;
  PlanRequest request = row_.request;
  request.clock_distance = knobs.clock_distance;
  request.placement = knobs.placement;
  PlanServer server = server_of(request);
  const std::vector<Node>& nodes = request.cluster.nodes;
  if (knobs.server_nodes == kAllNodes) {
    server.nodes.clear();
    for (const Node& node : nodes) {
      if (!node.kinds.empty()) server.nodes.push_back(node.name);
    }
  } else if (knobs.server_nodes >= 0) {
    server.nodes = {at(nodes, knobs.server_nodes).name};
  }
  return servers_.emplace(key, std::move(server)).first->second;
}

bool SearchSpace::share(Plan& plan) const {
  const auto samples = static_cast<std::size_t>(plan.minibatch / plan.micro_batches);
  plan.predicted.reset();
  for (PlanVirtualWorker& worker : plan.virtual_workers) {
    for (PlanStage& stage : worker.stages) {
      stage.shares.clear();
      stage.predicted.reset();
      if (stage.devices.size() > samples) return false;
    }
  }
  try {
    share_by_speed(row_.request, plan);
  } catch (const UserError&) {
    return false;  // no device holds so many samples at once
  }
  return true;
}

std::optional<Plan> SearchSpace::plan(const Allocation& composition, const Knobs& knobs,
                                      Recut recut, std::optional<double> weight) {
  Plan plan = blank_;
  for (const auto& devices : composition) {
    if (static_cast<int>(devices.size()) > max_stages()) return std::nullopt;
    std::vector<DeviceName> in_order;
    const auto& found = cut(devices, knobs, recut, weight.value_or(message_weight()), &in_order);
    if (!found) return std::nullopt;
    PlanVirtualWorker worker;
    for (std::size_t k = 0; k < found->ends.size(); ++k) {
      PlanStage stage;
      stage.first_layer = k == 0 ? 0 : found->ends[k - 1];
      stage.end_layer = found->ends[k];
      stage.devices = {in_order[static_cast<std::size_t>(found->devices[k].index)]};
      worker.stages.push_back(std::move(stage));
    }
    plan.virtual_workers.push_back(std::move(worker));
  }
  return with_knobs(std::move(plan), knobs);
}

long long staleness_of(const Plan& plan) {
  const System parts = composition(plan);
  if (traits(parts.schedule).has_flush) return 0;
  const long long in_flight = plan.in_flight;
  const long long distance = plan.server ? plan.server->clock_distance : 0;
  return plan.server ? (distance + 1) * plan.wave_length() + in_flight - 2 : in_flight - 1;
}

std::string describe(const Plan& plan) {
  std::map<std::size_t, int> sizes;  // devices -> virtual workers
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    std::size_t devices = 0;
    for (const PlanStage& stage : worker.stages) devices += stage.devices.size();
    ++sizes[devices];
  }
  std::vector<std::string> groups;
  for (const auto& [devices, workers] : sizes) {
    groups.push_back(format("%d of %zu", workers, devices));
  }
  std::string text =
      plan.system + format(", %zu virtual worker%s (%s device%s)", plan.virtual_workers.size(),
                           plan.virtual_workers.size() == 1 ? "" : "s", join(groups, ", ").c_str(),
                           sizes.size() == 1 && sizes.begin()->first == 1 ? "" : "s");
  if (traits(composition(plan).schedule).chooses_in_flight) {
    text += format(", Nm = %d", plan.in_flight);
  } else {
    text += format(", %d micro-batches", plan.micro_batches);
  }
  if (plan.server) {
    text += format(", D = %d, placement %s", plan.server->clock_distance,
                   plan.server->placement.c_str());
    if (plan.server->round > 1) text += format(", rounds of %d", plan.server->round);
    if (traits(composition(plan).sync).steps) text += ", the servers' optimizer";
  }
  return text;
}

}  // namespace hetpipe
