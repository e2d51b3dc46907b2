// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "partitioner/cost/model_tables.h"
#include "partitioner/plan/system.h"
#include "partitioner/planners/allocation.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/partition.h"
#include "partitioner/planners/planner.h"
#include "partitioner/planners/search.h"
#include "partitioner/planners/search_packing.h"
#include "partitioner/schedule/counts.h"

// What the search may choose from, and how a choice becomes a plan.
namespace hetpipe {

// One system to look at: the request with that system, its parts, and the samples of a minibatch.
struct SearchRow {
  PlanRequest request;
  System parts;
  int minibatch = 0;
};

// The request's system, or every row of systems() with the request's replaced parts that makes
// sense and trains as serial training would: rows whose backward pass mixes versions and rows of
// unbounded staleness are left to those who ask for them. Rows of equal parts are looked at once.
std::vector<SearchRow> search_rows(const PlanRequest& request);

// Where the shards of a parameter server are: on nodes without devices (else on the first), on all
// nodes with devices, on those where the plan's devices are, or on all others, whose interfaces
// carry nothing else. From 0 on: on that node alone.
enum ServerNodes : int { kOtherNodes = -4, kPlansNodes = -3, kAllNodes = -2, kUsualNodes = -1 };

// What is chosen in addition to composition and cuts.
struct Knobs {
  int in_flight = 1;      // Nm, for the schedule that has it
  int micro_batches = 1;  // for the others
  int clock_distance = 0;
  std::string placement = "default";
  int server_nodes = kUsualNodes;
  bool operator==(const Knobs&) const = default;
};

// Seconds per minibatch of a virtual worker's stages.
struct WorkerPace {
  double bottleneck = 0;
  double sum = 0;
  std::vector<double> stages;                  // [stage]: of which the bottleneck is the most
  std::vector<double> forwards;                // [stage]: of these, its forward passes
  std::vector<double> activations, gradients;  // [stage]: to receive them
};

// Partitions, and paces of virtual workers, by what they depend on, which the system hardly is: all
// rows share them.
struct CutCache {
  std::shared_ptr<ModelTables> tables = std::make_shared<ModelTables>();
  std::unordered_map<std::string, std::optional<Partition>> partitions;
  std::unordered_map<std::string, WorkerPace> paces;
  std::vector<Packing> packings;  // of the largest pool
};

// How virtual workers are cut: for their micro-batches (again where the cut for the least memory
// does not fit), or as if their minibatches were computed in few slices.
enum class Recut { where_needed, for_few_slices };

// Turns compositions into plans; virtual workers that are alike are cut once.
class SearchSpace {
 public:
  // `packings` of the same pool; `cut_work`: steps of the partitioner for a virtual worker.
  SearchSpace(const SearchRow& row, int minibatch, CutCache& cuts,
              const std::vector<Packing>& packings, std::int64_t cut_work = kCutWork);

  const SearchRow& row() const { return row_; }
  int minibatch() const { return minibatch_; }
  // Minibatches in flight are chosen (else micro-batches are).
  bool chooses_in_flight() const;
  bool has_server() const { return traits(row_.parts.sync).waves(); }

  int max_stages() const { return max_stages_; }  // of a virtual worker

  // Values of the knob, ascending; one where the user fixed it. Micro-batches are no smaller than
  // the smallest batch that was measured unless the user gave a minibatch: what a pass costs beside
  // its samples is not known below.
  std::vector<int> depths(int most_in_flight) const;
  std::vector<Knobs> with_depth(const Knobs& knobs, int most_in_flight) const;
  // With the next smaller depth, the same, and the next larger one.
  std::vector<Knobs> with_near_depths(const Knobs& knobs) const;
  // Every clock distance, placement and choice of servers, at the depth of `knobs`. `plan` tells
  // which nodes are idle.
  std::vector<Knobs> with_servers(const Knobs& knobs, const Plan& plan) const;
  // The server on one node alone, for each of them.
  std::vector<Knobs> with_one_server(const Knobs& knobs) const;
  Knobs first_knobs(int stages) const;
  static int& depth_of(const SearchSpace& space, Knobs& knobs);

  // The knobs of a plan, and a plan with other ones.
  Knobs knobs_of(const Plan& plan) const;
  Plan with_knobs(Plan plan, const Knobs& knobs) const;
  // Splits micro-batches over the replicas of each stage by their speed; false where one of them
  // would have no sample, or no device could hold as many as there are.
  bool share(Plan& plan) const;

  // How to cut for this depth: ways that differ.
  std::vector<Recut> recuts(int depth) const;
  // The devices of each virtual worker, cut by the partitioner; nothing where it finds no fit.
  // `message_weight` as in PartitionRequest; absent: the space's.
  std::optional<Plan> plan(const Allocation& composition, const Knobs& knobs,
                           Recut recut = Recut::where_needed,
                           std::optional<double> message_weight = std::nullopt);
  // Between flushes most messages travel while the stages compute.
  double message_weight() const {
    return traits(row_.parts.schedule).has_flush ? 1 : kHiddenMessages;
  }
  // Of each virtual worker of a plan without replicas.
  std::vector<WorkerPace> paces(const Plan& plan);
  // What HetPipe's partitioner makes of one virtual worker; nothing as above.
  const std::optional<Partition>& cut(std::vector<DeviceName> devices, const Knobs& knobs,
                                      Recut recut, double message_weight,
                                      std::vector<DeviceName>* in_order);

 private:
  void slice(PartitionRequest& request, int micro_batches);
  const std::optional<Partition>& cut_anew(const std::string& key, PartitionRequest request);
  std::optional<LikelyPartition> likely(const PartitionRequest& request) const;
  const Partition* fitting(const std::optional<Partition>& known,
                           const PartitionRequest& request) const;

  PlanServer server(const Knobs& knobs, const Plan& plan) const;
  bool chooses_server_nodes() const;

  SearchRow row_;
  int minibatch_;
  bool has_few_devices_;
  int max_stages_ = 1;
  Plan blank_;
  CutCache& known_;
  mutable std::map<std::tuple<int, std::string, int>, PlanServer> servers_;  // by knobs
  const std::vector<Packing>& packings_;
  std::int64_t cut_work_;
};

// Updates that a minibatch may miss: 0 where there is a flush (ALGORITHMS: HetPipe, s_global).
long long staleness_of(const Plan& plan);

// "hetpipe, 4 virtual workers of 4 devices, Nm = 5, D = 0"
std::string describe(const Plan& plan);

}  // namespace hetpipe
