// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "partitioner/planners/search_pace.h"
#include "partitioner/planners/search_packing.h"
#include "partitioner/planners/search_score.h"
#include "partitioner/planners/search_space.h"

// The steps of the search over one row; search.cpp puts them together.
namespace hetpipe {

struct ScoredPlan {
  Plan plan;
  double throughput = 0;  // simulated
  double worth = 0;       // PlanRequest::worth of it
  std::string origin;     // "np" ... or "search"
  std::size_t space = 0;  // among those of the search
};

std::vector<ScoredPlan> best_first(std::vector<ScoredPlan> plans);

// All plans that were simulated as a whole.
class FoundPlans {
 public:
  FoundPlans(const PlanRequest& request, PlanScores& scores) : request_(request), scores_(scores) {}
  // What is added from now on belongs to this space.
  void enter(std::size_t space) { space_ = space; }
  // Simulates and keeps it; its worth, or nothing where it does not run.
  std::optional<double> add(const Plan& plan, const std::string& origin);
  const std::vector<ScoredPlan>& all() const { return all_; }
  double best() const { return best_; }  // worth: no plan's is more than its throughput

 private:
  const PlanRequest& request_;
  PlanScores& scores_;
  std::vector<ScoredPlan> all_;
  std::size_t space_ = 0;
  double best_ = 0;
};

// Devices of virtual workers, and the samples/s that no plan of theirs is likely to exceed: with
// messages but without synchronisation.
struct Composition {
  Allocation workers;
  double most = 0;
  bool always = false;  // simulated whatever others promise
};

// The compositions that are looked at: packed (search_packing.h), and by simpler rules.
class CompositionPool {
 public:
  // kind_speed as in search_compositions.h; `without_each`: by rules without each device, too.
  CompositionPool(const PlanRequest& request, std::span<const double> kind_speed, CutCache& cuts,
                  bool without_each = false);
  std::vector<Composition> of(const SearchSpace& space);
  const std::vector<Packing>& packings() const { return packings_; }

 private:
  double most_of(const Allocation& workers) const;

  const Cluster& cluster_;
  bool whole_;  // no tables of a larger one serve it
  bool without_each_;
  std::vector<Packing> packings_;  // of whole minibatches, and of small micro-batches
  std::span<const double> kind_speed_;
  std::map<int, std::vector<Composition>> known_;  // by the most devices of a virtual worker
};

struct CompositionLimits {
  double least = 0;           // worth that they have to promise
  double to_beat = 0;         // worth that they may reach
  std::size_t simulated = 0;  // compositions
  bool plans_first = false;   // of all of them, before any is simulated
};

// Ranks compositions by estimates of the space's system and simulates the best ones that fit.
void search_compositions(SearchSpace& space, PlanScores& scores, FoundPlans& found,
                         const std::vector<Composition>& compositions,
                         const CompositionLimits& limits);

// The best plans so far, under the system of this space: at their own depths or, as another
// system's bubble is another one, at the next smaller and larger ones too.
enum class Depths { known, near };
void transplant(SearchSpace& space, PlanScores& scores, FoundPlans& found, Depths depths);

// From a plan to better ones by single steps, as long as that helps: depth, clock distance and
// placement, one layer across a cut (where these help no more across `several`), one device out of
// or into a virtual worker, two exchanged.
void improve(SearchSpace& space, PlanScores& scores, FoundPlans& found, ScoredPlan start,
             std::span<const double> kind_speed, bool several);

// The plan with its cuts moved, layer by layer, as long as that helps and takes no more actions; as
// many again for stages whose devices change places.
ScoredPlan polish(SearchSpace& space, PlanScores& scores, FoundPlans& found, ScoredPlan start,
                  std::int64_t actions);

struct AnnealingLimits {
  int steps = 0;             // single ones
  std::int64_t actions = 0;  // simulated
  unsigned walk = 0;         // which of many
};

// The best plan of a random walk from this one, without replicas: a cut is moved, a device moved,
// added, left out or exchanged, or the depth changed, and what loses worth is accepted as well,
// ever less of it (simulated annealing: Kirkpatrick, Gelatt and Vecchi, Science 220, 1983). The
// number of virtual workers stays. The same on every machine.
ScoredPlan anneal(SearchSpace& space, PlanScores& scores, FoundPlans& found, ScoredPlan start,
                  const AnnealingLimits& limits);

// Every plan of unreplicated stages with Nm up to twice the devices, if there are few enough of
// them: true when all were simulated or ruled out by computing alone.
bool try_all_plans(SearchSpace& space, PlanScores& scores, FoundPlans& found);

inline constexpr std::size_t kSmallPool = 24;  // devices: what takes longer is tried there
inline constexpr double kWorthIt = 0.005;      // of worth: what more staleness must bring

}  // namespace hetpipe
