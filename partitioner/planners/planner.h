// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/precision.h"
#include "base/shared_value.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/lateness.h"
#include "partitioner/plan/plan.h"
#include "partitioner/plan/system.h"
#include "partitioner/profile/profile.h"

// From pool and costs to a plan.
namespace hetpipe {

// Whether the search keeps the system of the request, or may take any row of systems().
enum class SystemChoice { requested, any };

// What the search may choose, in addition to what the request leaves open.
struct SearchChoice {
  SystemChoice systems = SystemChoice::requested;
  std::vector<int> clock_distances;     // to choose from; empty: the request's
  std::vector<std::string> placements;  // likewise
};

class ModelTables;
struct SharedCuts;
struct Simulation;

// What makes one plan better than another: samples/s, or samples/s over the samples that an
// accuracy takes (samples_factor).
enum class PlanObjective { throughput, time_to_accuracy };
std::vector<std::string> objective_names();  // "throughput" "time-to-accuracy"
std::optional<PlanObjective> try_parse_objective(std::string_view name);

struct PlanRequest {
  Cluster cluster;
  SharedValue<Profile> profile;
  std::string system = "hetpipe";
  std::optional<std::string> policy;   // "np" "ed" "hd" "search"; absent: by the system's planner
  std::optional<int> in_flight;        // Nm; absent: raised until throughput stops growing
  std::optional<int> virtual_workers;  // absent: what the policy forms
  std::optional<int> minibatch;        // absent: a measured batch, nearest to 32 samples
  std::optional<int> micro_batches;    // absent: what suits the planner; continuous schedules 1
  bool equal_shares = false;           // of the replicas of a stage; else by their speed
  std::string schedule;                // these three replace parts of the system's row; empty: its
  std::string weights;
  std::string sync;
  // Where updates count that come late, and these parts are HetPipe's: whether gradients go to the
  // servers' optimizer (docs/server-step.md) if that is worth more.
  bool chooses_sync = false;
  PrecisionChoice precision = Precision::fp32;  // whose peak estimates take
  std::optional<std::string> optimizer;         // absent: usual_optimizer
  double ema = 0;                               // of the plan
  std::optional<int> clock_distance;            // absent: usual_clock_distance
  std::string placement = "default";
  std::optional<std::string> pull;   // absent: PlanServer::usual_pull
  std::optional<std::string> scale;  // absent: usual_scale
  std::vector<std::string>
      server_nodes;  // empty: nodes without devices, if any; else the first node for
                     // placement "default", every node with devices for "local"
  SearchChoice search;
  // Steps of HetPipe's planner for each virtual worker (PartitionRequest::work).
  std::int64_t partition_work = 400'000'000;
  // Is called with what is being planned ("policy np, 3 minibatches in flight"), before each step
  // that takes long in large pools. Null: nobody listens.
  std::function<void(const std::string&)> progress;
  // For requests of the same profile, whose kinds of the same name are alike. Null: none are
  // shared.
  std::shared_ptr<ModelTables> tables;
  // Cuts of HetPipe's planner, for requests that differ in policy and placement alone.
  std::shared_ptr<SharedCuts> shared_cuts;  // null: none are shared
  std::string push_precision = PlanServer{}.push_precision;
  std::optional<int> round;  // absent: what the objective prefers (sync = "outer")
  double outer_rate = kOuterRate;
  std::optional<double> outer_momentum;  // absent: usual_outer_momentum
  PlanObjective objective = PlanObjective::throughput;
  double critical_batch = kCriticalBatch;
  // A search asks, and improves what it gets: planners may take less time, and look for what
  // simulates best instead of what their own objective prefers.
  bool of_search = false;
  // Of a plan that is worth less, they may say so instead of making it. 0: every plan counts.
  double least_worth = 0;

  // Whether it counts that updates come late.
  bool weighs_lateness() const { return objective == PlanObjective::time_to_accuracy; }
  // What the objective makes of a plan's samples/s.
  double worth(const Plan& plan, double throughput) const {
    if (!weighs_lateness()) return throughput;
    return throughput / samples_factor(plan, critical_batch);
  }
  // Of the samples/s that are predicted for it.
  double worth(const Plan& plan) const { return worth(plan, plan.predicted->throughput); }
  // The most that it makes of so many virtual workers' samples/s.
  double most_worth(std::size_t workers, int of_minibatch, double throughput) const;
};

std::shared_ptr<SharedCuts> share_cuts();

// Those of the request, or new ones.
std::shared_ptr<ModelTables> tables_of(const PlanRequest& request);

// Checks the request by itself: words, ranges, parts that cannot be combined. UserError
// with everything at once, under the names of the command's options.
void check_request(const PlanRequest& request);

// The parts that the request asks for: its system's row with its own choices in place. UserError as
// above.
System composition(const PlanRequest& request);

// Its optimizer, or else the usual one of these parts.
std::string optimizer_of(const PlanRequest& request);

// Chooses the planner: HetPipe's planner for its allocation policies, the search for the policy
// "search", else the planner of the system's row; the search, too, in place of HetPipe's planner
// if the schedule is not one that it plans for, or no policy forms virtual workers that can all be
// partitioned.
PlannerRule planner_of(const PlanRequest& request);

// Whether more than one sync is planned for: where updates count that come late and none is given,
// but not in large pools, where planning once more takes long.
bool weighs_syncs(const PlanRequest& request);

// Whether sync = "server-step" may be chosen for it (PlanRequest::chooses_sync), with an optimizer
// whose steps are damped.
bool may_give_servers_steps(const PlanRequest& request);

// The plan of that planner, with its prediction; kinds that the profile does not cover are
// estimated (profile/estimate.h). UserError with everything that is wrong with the
// request, or when nothing fits.
Plan make_plan(const PlanRequest& request);

// The same for a search that compares many: of a profile that covers all kinds, and without a note
// of what it was made from.
Plan candidate_plan(const PlanRequest& request);

// HetPipe's planner (arXiv 2005.14038): allocation policies and the min-max partitioner. Nm is the
// same for all virtual workers: raised from 1 while the predicted throughput grows by at least 1 %
// and memory lasts. UserError as above.
Plan plan_hetpipe(const PlanRequest& request);

// What the planners share.

// Samples per minibatch so that a micro-batch is one that was measured, nearest to 32 in all.
int default_minibatch(const PlanRequest& request);

// UserError if micro-batches are not equal slices of the minibatch.
void check_slices(int minibatch, int micro_batches);

// Samples/s of the whole model on one device of each kind, at calls of so many samples, [kind]; 0
// for kinds that no node has, which need no measurement.
std::vector<double> kind_speeds(const PlanRequest& request, int samples);

// Its clock distance, or else the usual one of these parts.
int clock_distance_of(const PlanRequest& request);

// The parameter server that the request describes.
PlanServer server_of(const PlanRequest& request);

// An empty plan of the request's system, model, optimizer and replaced parts.
Plan blank_plan(const PlanRequest& request);

// Simulates the plan for its throughput, and says what late updates cost.
void predict(const PlanRequest& request, Plan& plan);

// Of a plan in rounds: H, unless it is given. Doubled until exchanges cost next to nothing, and of
// these what the objective prefers: in longer rounds virtual workers see less of each other.
void choose_round(const PlanRequest& request, Plan& plan);

// What a simulation says of the plan's labels, where that is weighed.
std::optional<double> label_age(const Plan& plan, const Simulation& simulation);

// Notes of which cluster and profile the prediction holds.
void note_inputs(const PlanRequest& request, Plan& plan);

}  // namespace hetpipe
