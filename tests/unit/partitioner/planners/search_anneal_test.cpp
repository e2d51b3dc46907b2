// SPDX-License-Identifier: Apache-2.0
// Annealing against the best of all plans with so many virtual workers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "../cases.h"
#include "partitioner/planners/search.h"
#include "partitioner/planners/search_run.h"
#include "partitioner/planners/search_score.h"

namespace hetpipe {
namespace search_anneal_test {

// Four devices of two kinds on two nodes, and six layers that differ: few enough that a search
// enumerates all plans (search_test.cpp holds it against brute force).
PlanRequest request_of(const std::string& system, int workers) {
  PlanRequest request;
  request.cluster = test::cluster_of({{"fast", "slow"}, {"fast", "slow"}}, 1'000'000'000);
  request.cluster.intra_node = {10e9, 1e-6, false};
  request.cluster.inter_node = {1e9, 1e-5, false};
  request.profile = test::chain_of(6, {"fast", "slow"},
                                   [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  for (Measurement& m : request.profile.change().measurements) {
    for (std::size_t l = 0; l < m.forward.size(); ++l) {
      m.forward[l] *= 1 + 0.3 * static_cast<double>(l % 4);
      m.output_bytes[l] = 4'000'000 >> l;
    }
  }
  request.minibatch = 32;
  request.system = system;
  request.search = {SystemChoice::requested, {0}, {"default"}};
  request.virtual_workers = workers;
  request.objective = PlanObjective::throughput;
  return request;
}

// Every virtual worker is one device at first, the slow ones before the fast ones.
ScoredPlan annealed(const PlanRequest& request, const AnnealingLimits& limits) {
  CutCache cuts;
  const std::vector<Packing> none;
  SearchSpace space(search_rows(request).front(), *request.minibatch, cuts, none);
  const std::vector<DeviceName> devices{{"n0", 1}, {"n1", 1}, {"n0", 0}};
  Allocation workers;
  for (int n = 0; n < *request.virtual_workers; ++n) {
    workers.push_back({devices[static_cast<std::size_t>(n)]});
  }
  const auto plan = space.plan(workers, space.first_knobs(1));
  PlanScores scores(request.cluster, request.profile);
  FoundPlans found(request, scores);
  if (!plan || !found.add(*plan, "search")) return {};
  return anneal(space, scores, found, found.all().front(), limits);
}

TEST(SearchAnneal, FindsTheBestOfAllPlans) {
  for (const char* system : {"gpipe", "zero-bubble", "hetpipe"}) {
    for (const int workers : {1, 2, 3}) {
      const PlanRequest request = request_of(system, workers);
      const SearchResult best = search_plans(request);
      ASSERT_TRUE(best.exact);
      const ScoredPlan start = annealed(request, {0, 1});
      const ScoredPlan found = annealed(request, {4'000, 30'000'000});
      EXPECT_LT(start.worth, 0.9 * best.worth) << system << ", " << workers;
      EXPECT_GE(found.worth, 0.995 * best.worth) << system << ", " << workers;
      EXPECT_EQ(found.plan.virtual_workers.size(), static_cast<std::size_t>(workers));
    }
  }
}

TEST(SearchAnneal, IsTheSameEveryTime) {
  const PlanRequest request = request_of("gpipe", 2);
  EXPECT_EQ(annealed(request, {50, 30'000'000}).plan, annealed(request, {50, 30'000'000}).plan);
}

TEST(SearchAnneal, EndsWithItsWork) {
  const PlanRequest request = request_of("gpipe", 2);
  const ScoredPlan once = annealed(request, {4'000, 1});  // one simulation takes more
  EXPECT_LT(once.worth, 0.8 * annealed(request, {4'000, 30'000'000}).worth);
}

}  // namespace search_anneal_test
}  // namespace hetpipe
