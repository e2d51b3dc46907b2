// SPDX-License-Identifier: Apache-2.0
// Whether anything is worth more than the search's plan: the pool without any one device, a layer
// across any cut, any single system by its own planner or the search, any policy.
// own_advice [--smallest] CLUSTER.toml PROFILE.toml [...]: pairs; each with both objectives, and
// with minibatches of 32 and of each planner's own.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "benchmarks/smallest.h"
#include "partitioner/planners/search.h"
#include "partitioner/planners/search_score.h"
#include "partitioner/planners/search_smaller_pools.h"
#include "partitioner/planners/search_space.h"
#include "partitioner/profile/estimate.h"

namespace hetpipe::bench {
namespace {

constexpr double kBetter = 0.01;  // of worth

// What gives most of one sort, and how much more than the search's plan.
struct Best {
  double gain = -1;
  std::string what = "–";
  int asked = 0;
};

class Advice {
 public:
  Advice(const Cluster& cluster, const Profile& profile, PlanObjective objective,
         std::optional<int> minibatch) {
    request_.cluster = cluster;
    request_.profile = profile;
    request_.objective = objective;
    request_.minibatch = minibatch;
    request_.search = {SystemChoice::any, {0, 1, 4}, {"default", "local"}};
    request_.chooses_sync = true;
    found_ = search_plans(request_);
  }

  const SearchResult& found() const { return found_; }

  Best removals() const {
    Best best;
    std::set<PoolShape> asked;
    for (const auto& [cluster, gone] : smaller_pools(request_.cluster, {}, false, asked)) {
      PlanRequest less = request_;
      less.cluster = cluster;
      const DeviceName& device = gone.front();
      const std::string& kind = request_.cluster.kind_of(device).name;
      ask(best, "without " + to_string(device) + " " + kind, [&] { return plan_search(less); });
    }
    return best;
  }

  Best moves() const {
    Best best;
    for (std::size_t vw = 0; vw < found_.plan.virtual_workers.size(); ++vw) {
      for (std::size_t k = 0; k + 1 < found_.plan.virtual_workers[vw].stages.size(); ++k) {
        for (const int by : {1, -1}) {
          ask(best, format("virtual worker %zu, cut %zu, %+d", vw, k, by),
              [&] { return moved(vw, k, by); });
        }
      }
    }
    return best;
  }

  Best planners() const {
    Best best;
    for (const SearchRow& row : search_rows(request_)) {
      PlanRequest other = row.request;
      other.search.systems = SystemChoice::requested;
      other.policy = "search";
      const std::string name = other.system + (other.sync.empty() ? "" : ", " + other.sync);
      ask(best, name + ", searched", [&] { return make_plan(other); });
      other.search = {};
      other.policy.reset();
      ask(best, name + ", its planner", [&] { return make_plan(other); });
      if (row.parts.planner != PlannerRule::hetpipe) continue;
      for (const std::string& policy : allocation_policies()) {
        other.policy = policy;
        ask(best, name + ", " + policy, [&] { return make_plan(other); });
      }
    }
    return best;
  }

 private:
  Plan moved(std::size_t vw, std::size_t k, int by) const {
    Plan plan = found_.plan;
    auto& stages = plan.virtual_workers[vw].stages;
    stages[k].end_layer += by;
    stages[k + 1].first_layer += by;
    if (stages[k].end_layer <= stages[k].first_layer ||
        stages[k + 1].end_layer <= stages[k + 1].first_layer) {
      throw UserError("", "no layer is left");
    }
    PlanScores scores(request_.cluster, request_.profile);
    const auto throughput = scores.throughput(plan);
    if (!throughput) throw UserError("", scores.why_not());
    plan.predicted->throughput = *throughput;
    return plan;
  }

  void ask(Best& best, const std::string& what, const std::function<Plan()>& plan) const {
    try {
      const Plan other = plan();
      ++best.asked;
      const double gain = request_.worth(other, other.predicted->throughput) / found_.worth - 1;
      if (gain <= best.gain) return;
      best.gain = gain;
      best.what = what + " (" + describe(other) + ")";
    } catch (const UserError&) {  // it does not fit, or not this pool
    }
  }

  PlanRequest request_;
  SearchResult found_;
};

std::string cell(const Best& best) {
  if (best.asked == 0) return "– |";
  std::string text = format("%d | %+.1f %%", best.asked, 100 * best.gain);
  return best.gain > kBetter ? text + ", **" + best.what + "**" : text;
}

struct Count {
  int asked = 0;
  int better = 0;
  void add(const Best& best) {
    asked += best.asked > 0;
    better += best.gain > kBetter;
  }
};

std::string stem(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  return name.substr(0, name.rfind('.'));
}

int run(const std::vector<std::string>& files, bool smallest) {
  std::printf(
      "| pool | model | objective | minibatch | the search's plan | samples/s | worth | pools with "
      "one device less | best "
      "of them | moves of a layer | best | planners | best "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  Count removals, moves, planners;
  for (std::size_t i = 0; i + 1 < files.size(); i += 2) {
    const Cluster cluster = load_cluster(files[i]);
    const Profile profile = with_estimates(load_profile(files[i + 1]), cluster, Precision::fp32);
    for (const std::string& objective : objective_names()) {
      for (const std::optional<int> minibatch : {std::optional<int>(), std::optional<int>(32)}) {
        if (smallest && (minibatch || objective != "throughput")) continue;
        const Advice advice(cluster, profile, *try_parse_objective(objective), minibatch);
        const Best less = advice.removals(), step = advice.moves(), other = advice.planners();
        removals.add(less);
        moves.add(step);
        planners.add(other);
        const SearchResult& found = advice.found();
        std::printf("| %s | %s | %s | %s | %s | %.4g | %.4g | %s | %s | %s |\n",
                    stem(files[i]).c_str(), profile.model.c_str(), objective.c_str(),
                    minibatch ? "32" : "own", describe(found.plan).c_str(),
                    found.plan.predicted->throughput, found.worth, cell(less).c_str(),
                    cell(step).c_str(), cell(other).c_str());
        std::fflush(stdout);
      }
    }
  }
  std::printf(
      "\nSomething gives more than 1 %% more: without a device in %d of %d settings, a moved layer "
      "in %d of %d, another "
      "planner in %d of %d.\n",
      removals.better, removals.asked, moves.better, moves.asked, planners.better, planners.asked);
  return 0;
}

}  // namespace
}  // namespace hetpipe::bench

int main(int argc, char** argv) {
  const bool smallest = hetpipe::bench::take_smallest(argc, argv);
  try {
    return hetpipe::bench::run({argv + 1, argv + argc}, smallest);
  } catch (const hetpipe::UserError& error) {
    std::fprintf(stderr, "own_advice: %s\n", error.what());
    return 2;
  }
}
