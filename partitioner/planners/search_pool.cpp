// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_pool.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/allocation.h"
#include "partitioner/planners/search_bound.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/planners/search_effort.h"
#include "partitioner/planners/search_report.h"
#include "partitioner/planners/search_run.h"
#include "partitioner/planners/search_seeds.h"

namespace hetpipe {
namespace {

constexpr double kWorthImproving = 0.75;   // of the best so far: what a planner's plan must be
constexpr double kWorthExchanging = 0.95;  // of it: worth improving
constexpr std::size_t kExchanged = 4;      // plans that exchange() improves
constexpr double kFurtherBehind = 0.85;    // of it, where lateness counts: worth polishing
constexpr std::size_t kPolishedBehind = 2;
constexpr int kPolishings = 3;         // of a plan
constexpr double kGainsOn = 1.02;      // of worth: what each must bring for another one
constexpr int kFollowed = 3;           // times that a choice is made anew
constexpr double kMayWin = 0.93;       // of what is to be beaten, before any step
constexpr double kMayStillWin = 0.85;  // of it, after steps from the best few
constexpr std::size_t kFew = 3;
// In pools of more than 64 devices HetPipe's planner takes too long, and so do all compositions of
// all rows and steps from many plans.
constexpr int kLargePool = 64;
constexpr std::size_t kOfOthers = 8;         // compositions of a row but the first there
constexpr std::size_t kImprovedOfLarge = 4;  // plans that improve() starts from there
constexpr std::int64_t kExactActions = 20'000'000;

class Search {
 public:
  Search(const PlanRequest& request, const SearchOptions& options,
         const std::vector<SeedPlanner>& seeds, CutCache& cuts,
         const std::shared_ptr<SimulatedPlans>& simulated, std::optional<Again> again)
      : given_(request),
        again_(std::move(again)),
        request_(fixed_minibatch(request)),
        seeds_(seeds),
        devices_(static_cast<int>(request.cluster.devices().size())),
        rows_(search_rows(given_)),
        effort_(search_effort(request_.cluster)),
        budget_(options.actions > 0 ? options.actions : effort_.actions),
        scores_(request_.cluster, request_.profile, simulated),
        found_(request_, scores_),
        speeds_(kind_speeds(request_, *request_.minibatch)),
        pool_(request_, speeds_, cuts),
        cuts_(cuts) {
    if (!again_) return;
    std::erase_if(rows_, [&](const SearchRow& row) { return !again_->rows.contains(name(row)); });
  }

  FoundInPool run() {
    for (const SearchRow& row : rows_) enter(row, row.minibatch);
    seed_all(true);
    bool first = true;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_.size() > 1 && !explored(rows_[i])) continue;
      explore(i, first);
      first = false;
    }
    seed_all(false);
    SearchResult result;
    if (may_win()) {
      result = improved_result();
    } else {
      result.worth = found_.best();
    }
    result.simulations = scores_.simulations();
    result.actions = scores_.actions();
    FoundInPool found{std::move(result), {}, {}};
    for (const SearchRow& row : rows_) {
      found.rows[name(row)] = 0;
      if (row.parts.planner == PlannerRule::data_parallel) found.quick.insert(name(row));
    }
    for (const ScoredPlan& plan : found_.all()) {
      double& best = found.rows[name(spaces_[plan.space]->row())];
      best = std::max(best, plan.worth);
    }
    return found;
  }

 private:
  static RowName name(const SearchRow& row) { return {row.request.system, row.request.sync}; }

  // What steps and polishing make of the plans found so far.
  SearchResult improved_result() {
    if (!exact_) {
      improve_best();
      exchange();
      polish_best();
      if (effort_.exchanges_again) exchange();
    }
    SearchResult result;
    const ScoredPlan chosen = polish_on(choose(result.left_out));
    result.plan = with_forecast(request_, chosen);
    choose_round(request_, result.plan);
    result.worth = request_.worth(result.plan);
    int largest = *request_.minibatch;
    for (const ScoredPlan& plan : found_.all()) largest = std::max(largest, plan.plan.minibatch);
    result.bound = throughput_bound(request_.cluster, request_.profile, largest);
    result.exact = exact_;
    result.considered = considered(found_.all());
    result.considered.insert(result.considered.end(), refused_.begin(), refused_.end());
    return result;
  }

  static PlanRequest fixed_minibatch(PlanRequest request) {
    check_request(request);
    request.policy.reset();
    if (!request.minibatch) request.minibatch = default_minibatch(request);
    return request;
  }

  double to_beat() const { return again_ ? again_->to_beat : 0; }

  // Before it is improved: not far behind what is to be beaten, or steps from the best few bring it
  // near.
  bool may_win() {
    if (!again_) return true;
    if (found_.best() == 0) return false;
    if (found_.best() >= kMayWin * to_beat()) return true;
    if (found_.best() < effort_.may_start * to_beat()) return false;
    Starts starts({1, 1});
    for (const ScoredPlan& start : best_first(found_.all())) {
      if (starts.taken() == kFew) break;
      if (starts.take(start, found_.best())) improve_from(start);
    }
    return found_.best() >= kMayStillWin * to_beat();
  }

  // The space of a row and a minibatch: plans that are added from now on are of it.
  SearchSpace& enter(const SearchRow& row, int minibatch) {
    std::size_t space = 0;
    const auto is_of = [&](const SearchSpace& known) {
      const PlanRequest& of = known.row().request;
      return of.system == row.request.system && of.sync == row.request.sync &&
             known.minibatch() == minibatch;
    };
    while (space < spaces_.size() && !is_of(*spaces_[space])) {
      ++space;
    }
    if (space == spaces_.size()) {
      spaces_.push_back(std::make_unique<SearchSpace>(row, minibatch, cuts_, pool_.packings()));
    }
    found_.enter(space);
    if (request_.progress) request_.progress("plans of " + row.request.system);
    return *spaces_[space];
  }

  // The best plan; single steps do not make it better, nor do its idle devices, as far as the
  // search can follow them.
  ScoredPlan choose(std::vector<LeftOut>& idle) {
    for (int followed = 0;; ++followed) {
      const ScoredPlan chosen = settle();
      found_.enter(chosen.space);
      scores_.allow(followed < kFollowed ? budget_ / 4 : 0);  // 0: only of plans found before
      idle = left_out(chosen, *spaces_[chosen.space], scores_, found_);
      if (found_.best() <= chosen.worth * (1 + kWorthIt) || followed == kFollowed) return chosen;
      improve_from(best_first(found_.all()).front());
    }
  }

  ScoredPlan polished(const ScoredPlan& chosen) {
    if (exact_ || devices_ > static_cast<int>(kSmallPool)) return chosen;
    found_.enter(chosen.space);
    // Rounds of many micro-batches take so long that a quarter would be over at once.
    const std::int64_t least = effort_.polishing * scores_.actions_of(chosen.plan);
    const std::int64_t actions = std::max(budget_ / 4, least);
    return polish(*spaces_[chosen.space], scores_, found_, chosen, actions);
  }

  // The best ones that differ in row, number of virtual workers or of devices: the best of all may
  // be another one then. Where late updates count, fewer and longer pipelines may be best, whose
  // cuts gain most: of those that are further behind some, too.
  void polish_best() {
    if (devices_ > static_cast<int>(kSmallPool)) return;
    std::set<std::array<std::size_t, 3>> tried;  // space, virtual workers, devices
    const auto polish_some = [&](double least, std::size_t most) {
      std::size_t begun = 0;
      for (const ScoredPlan& start : best_first(found_.all())) {
        if (start.worth < least * found_.best() || begun == most) return;
        const std::size_t workers = start.plan.virtual_workers.size();
        if (!tried.insert({start.space, workers, devices_of(start.plan).size()}).second) continue;
        polish_on(start);
        ++begun;
      }
    };
    polish_some(effort_.worth_polishing, effort_.polished);
    if (request_.weighs_lateness() && effort_.worth_polishing > kFurtherBehind) {
      polish_some(kFurtherBehind, kPolishedBehind);
    }
  }

  // Again where its share of the work has ended it, as long as it gains.
  ScoredPlan polish_on(ScoredPlan plan) {
    for (int i = 0; i < kPolishings; ++i) {
      const double before = plan.worth;
      plan = polished(plan);
      if (!scores_.spent() || plan.worth < kGainsOn * before) break;
    }
    return plan;
  }

  // The least stale of the plans near the best may not have been improved.
  ScoredPlan settle() {
    for (int followed = 0;; ++followed) {
      const ScoredPlan* best = least_stale(found_.all(), seeds_best_);
      if (best == nullptr) nothing_runs();
      const ScoredPlan chosen = *best;
      if (exact_ || followed == kFollowed) return chosen;
      improve_from(chosen);
      if (least_stale(found_.all(), seeds_best_)->plan == chosen.plan) return chosen;
    }
  }

  void improve_from(const ScoredPlan& start) {
    found_.enter(start.space);
    scores_.allow(budget_ / 4);
    improve(*spaces_[start.space], scores_, found_, start, speeds_, effort_.several_cuts);
  }

  // Quick planners before the search's own work; what takes longer after it, when planners can give
  // up on what is worth less. HetPipe's policies last: in large pools many cannot reach what the
  // other planners did. Of systems that differ in nothing that a planner knows (in large pools: but
  // for the memory of weights) only the first is asked; the others take its plans over.
  void seed_all(bool quick) {
    std::vector<System> seen;
    const auto is_hetpipe = [](const SearchRow& row) {
      return row.parts.planner == PlannerRule::hetpipe;
    };
    for (const SearchRow& row : rows_) {
      const bool known = std::any_of(seen.begin(), seen.end(), [&](const System& other) {
        return other.planner == row.parts.planner && other.schedule == row.parts.schedule &&
               other.sync == row.parts.sync &&
               (other.weights == row.parts.weights || devices_ > kLargePool);
      });
      seen.push_back(row.parts);
      if (!known && !is_hetpipe(row)) seed(row, quick);
    }
    // Those of rounds and of the servers' optimizer are made of the plans without.
    for (const SearchRow& row : rows_) {
      const SyncTraits& sync = traits(row.parts.sync);
      const bool again = rows_.size() > 1 && (sync.rounds || sync.steps);
      if (is_hetpipe(row) && !again) seed(row, quick);
    }
  }

  // The plans of the others, as they are.
  void seed(const SearchRow& row, bool quick) {
    for (const Seed& seed : seeds_of(row, speeds_, seeds_, quick, cuts_.tables)) {
      if (again_ && !again_->policies && !seed.policy.empty()) continue;
      if (devices_ > kLargePool && !seed.policy.empty()) {
        seed_policy(row, seed.policy, seed.bound);
        continue;
      }
      try {
        const Plan plan = seed.plan(std::max(kWorthImproving * found_.best(), kMayWin * to_beat()));
        enter(row, plan.minibatch);
        // What was looked at is not all there is at another minibatch.
        exact_ = exact_ && plan.minibatch == row.minibatch;
        if (seed.predicted) scores_.note(plan, plan.predicted->throughput);
        if (const auto worth = found_.add(plan, seed.name)) {
          seeds_best_ = std::max(seeds_best_, *worth);
        }
      } catch (const UserError& error) {
        refused_.push_back({seed.name, row.request.system, 0, error.what()});
      }
    }
  }

  // In large pools HetPipe's planner itself takes minutes: its policies' virtual workers are cut
  // here, and only those that could still win.
  void seed_policy(const SearchRow& row, const std::string& policy, double bound) {
    const auto refuse = [&](const std::string& why) {
      refused_.push_back({policy, row.request.system, 0, why});
    };
    if (bound < found_.best()) {
      refuse(format("cannot exceed %.4g samples/s with any partition", bound));
      return;
    }
    try {
      const Allocation composition =
          allocate(request_.cluster, policy, speeds_, request_.virtual_workers);
      SearchSpace& space = enter(row, row.minibatch);
      scores_.allow(budget_ / 16);
      const auto plan = deep_plan(space, scores_, composition);
      if (!plan || !found_.add(*plan, policy)) refuse("it does not fit");
    } catch (const UserError& error) {
      refuse(error.what());
    }
  }

  // Data parallelism has few plans beside its planner's.
  bool explored(const SearchRow& row) const {
    return row.parts.planner != PlannerRule::data_parallel || devices_ <= kLargePool;
  }

  // Its own compositions and, but for the first row, the plans of those before.
  void explore(std::size_t row, bool first) {
    SearchSpace& space = enter(rows_[row], rows_[row].minibatch);
    const std::size_t before = found_.all().size();
    const bool small = devices_ <= 4 && request_.profile->layers.size() <= 6;
    scores_.allow(small ? kExactActions : budget_ / 2);
    const bool all = try_all_plans(space, scores_, found_);
    exact_ = exact_ && all;
    if (!all) {
      if (!first) transplant(space, scores_, found_, Depths::known);
      const bool large = devices_ > kLargePool;
      if (first || !large || found_.all().size() == before) {
        std::vector<Composition> compositions = pool_.of(space);
        if (large && !first) compositions.resize(std::min(compositions.size(), kOfOthers));
        const double least =
            std::max(effort_.hopeless * found_.best(), effort_.may_gain * to_beat());
        search_compositions(space, scores_, found_, compositions, least,
                            effort_.may_reach * to_beat(), effort_.simulated);
      }
    }
    if (found_.all().size() == before) {
      const std::string& why = scores_.why_not();
      why_not_.push_back(
          rows_[row].request.system + ": " +
          (why.empty() ? "no virtual workers could be formed and partitioned in this way" : why));
    }
  }

  // The best plans under each row's system once more, now that steps have made them better.
  void exchange() {
    if (devices_ > static_cast<int>(kSmallPool) || rows_.size() == 1) return;
    const std::size_t before = found_.all().size();
    for (const SearchRow& row : rows_) {
      scores_.allow(budget_ / 8);
      transplant(enter(row, row.minibatch), scores_, found_, Depths::near);
    }
    const std::vector<ScoredPlan> others(found_.all().begin() + static_cast<std::ptrdiff_t>(before),
                                         found_.all().end());
    std::size_t improved = 0;
    for (const ScoredPlan& start : best_first(others)) {
      if (start.worth < kWorthExchanging * found_.best() || improved++ == kExchanged) return;
      improve_from(start);
    }
  }

  void improve_best() {
    Starts starts(effort_.starts);
    for (const ScoredPlan& start : best_first(found_.all())) {
      if (devices_ > kLargePool && starts.taken() == kImprovedOfLarge) return;
      if (starts.take(start, found_.best())) improve_from(start);
    }
  }

  [[noreturn]] void nothing_runs() const {
    std::string text = "no plan was found that fits and runs (the planners' reasons follow).";
    for (const SearchCandidate& candidate : refused_) {
      text += "\n  " + candidate.origin + ": " + candidate.why_not;
    }
    for (const std::string& why : why_not_) text += "\n  " + why;
    text += "\nUse a smaller minibatch, or more or larger devices.";
    throw UserError("", text);
  }

  const PlanRequest& given_;
  std::optional<Again> again_;
  PlanRequest request_;  // with the minibatch that rows without a planner of their own take
  const std::vector<SeedPlanner>& seeds_;
  int devices_;
  std::vector<SearchRow> rows_;
  SearchEffort effort_;
  std::int64_t budget_;  // actions
  PlanScores scores_;
  FoundPlans found_;
  std::vector<double> speeds_;  // [kind], samples/s
  CompositionPool pool_;
  CutCache& cuts_;
  std::vector<std::unique_ptr<SearchSpace>> spaces_;  // by row and minibatch
  std::vector<SearchCandidate> refused_;
  std::vector<std::string> why_not_;
  double seeds_best_ = 0;
  bool exact_ = true;
};

}  // namespace

RowNames rows_worth(const FoundInPool& found, double worth) {
  RowNames names;
  for (const auto& [name, best] : found.rows) {
    if (best > 0 && best >= worth) names.insert(name);
  }
  return names;
}

FoundInPool search_pool(const PlanRequest& request, const SearchOptions& options,
                        const std::vector<SeedPlanner>& seeds, CutCache& cuts,
                        const std::shared_ptr<SimulatedPlans>& simulated,
                        std::optional<Again> again) {
  return Search(request, options, seeds, cuts, simulated, std::move(again)).run();
}

}  // namespace hetpipe
