// SPDX-License-Identifier: Apache-2.0
// Single steps from plan to plan, and the polishing that is made of them.
#include "partitioner/planners/search_moves.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "../cases.h"
#include "partitioner/planners/search_run.h"
#include "partitioner/planners/search_score.h"

namespace hetpipe {
namespace search_moves_test {

// Of two virtual workers, each of so many stages.
Plan two_workers(const std::vector<int>& ends) {
  Plan plan;
  plan.virtual_workers.resize(2);
  for (PlanVirtualWorker& worker : plan.virtual_workers) {
    int first = 0;
    for (const int end : ends) {
      PlanStage& stage = worker.stages.emplace_back();
      stage.first_layer = first;
      stage.end_layer = first = end;
      stage.devices = {{"n", static_cast<int>(worker.stages.size()) - 1}};
    }
  }
  return plan;
}

std::vector<int> ends_of(const PlanVirtualWorker& worker) {
  std::vector<int> ends;
  for (const PlanStage& stage : worker.stages) ends.push_back(stage.end_layer);
  return ends;
}

TEST(SearchMoves, ExchangedStagesTakeTheirLayersAlong) {
  const Plan plan = two_workers({1, 3, 7});
  const Plan other = exchanged_stages(plan, {1}, 0, 2);
  EXPECT_EQ(other.virtual_workers[0], plan.virtual_workers[0]);
  const std::vector<PlanStage>& stages = other.virtual_workers[1].stages;
  EXPECT_EQ(ends_of(other.virtual_workers[1]), (std::vector<int>{4, 6, 7}));
  EXPECT_EQ(stages[0].devices.front().index, 2);
  EXPECT_EQ(stages[2].devices.front().index, 0);
  EXPECT_EQ(stages[1].first_layer, 4);
}

TEST(SearchMoves, SeveralCutsMoveTogether) {
  const Plan plan = two_workers({2, 3, 5, 6});
  const auto more = moved_cuts(plan, {1}, {0, 2}, 1);
  EXPECT_FALSE(more);  // the last stage has one layer
  const auto less = moved_cuts(plan, {1}, {0, 1}, -1);
  ASSERT_TRUE(less);
  EXPECT_EQ(less->virtual_workers[0], plan.virtual_workers[0]);
  EXPECT_EQ(ends_of(less->virtual_workers[1]), (std::vector<int>{1, 2, 5, 6}));
  EXPECT_EQ(less->virtual_workers[1].stages[1].first_layer, 1);
  EXPECT_EQ(less->virtual_workers[1].stages[2].first_layer, 2);
  EXPECT_FALSE(moved_cuts(*less, {1}, {0, 1}, -1));  // nor has the first one now
  std::set<std::pair<std::size_t, std::size_t>> runs;
  for (const CutRun run : cut_runs(4, Cuts::several)) runs.emplace(run.first, run.last);
  EXPECT_EQ(runs, (std::set<std::pair<std::size_t, std::size_t>>{{0, 1}, {0, 2}, {1, 2}}));
  EXPECT_EQ(cut_runs(4, Cuts::single).size(), 3U);
  EXPECT_TRUE(cut_runs(1, Cuts::single).empty());
}

// A pipeline that goes to another node and back, although it could stay there.
TEST(SearchPolish, ExchangesTheDevicesOfStages) {
  PlanRequest request;
  request.cluster = test::cluster_of({{"fast", "fast"}, {"slow"}}, 1'000'000'000);
  request.cluster.intra_node = {10e9, 1e-6, false};
  request.cluster.inter_node = {1e8, 1e-6, false};
  request.profile = test::chain_of(12, {"fast", "slow"},
                                   [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  for (Measurement& m : request.profile.change().measurements) {
    for (auto& bytes : m.output_bytes) bytes = 400'000;
  }
  request.minibatch = 32;
  request.system = "gpipe";
  request.search.systems = SystemChoice::requested;
  request.objective = PlanObjective::throughput;
  CutCache cuts;
  const std::vector<Packing> none;
  SearchSpace space(search_rows(request).front(), 32, cuts, none);
  Knobs knobs = space.first_knobs(3);
  knobs.micro_batches = 4;
  auto plan = space.plan({{{"n0", 0}, {"n0", 1}, {"n1", 0}}}, knobs);
  ASSERT_TRUE(plan);
  auto& stages = plan->virtual_workers[0].stages;
  stages[0].devices = {{"n0", 0}};
  stages[1].devices = {{"n1", 0}};
  stages[2].devices = {{"n0", 1}};
  PlanScores scores(request.cluster, request.profile);
  scores.allow(1'000'000);
  FoundPlans found(request, scores);
  const double before = *found.add(*plan, "search");
  const ScoredPlan after = polish(space, scores, found, found.all().front(), 1'000'000);
  EXPECT_GT(after.worth, 1.1 * before);
  EXPECT_EQ(after.plan.virtual_workers[0].stages[1].devices.front().node, "n0");
}

// Three equal devices with free links, four micro-batches; a layer takes as many milliseconds.
class SearchPolishCuts : public testing::Test {
 protected:
  void plan_of(const std::vector<double>& layers, const std::vector<int>& ends) {
    request_.cluster = test::cluster_of({{"gpu", "gpu", "gpu"}}, 1'000'000'000);
    request_.cluster.intra_node = {1e15, 0, false};
    request_.profile =
        test::chain_of(static_cast<int>(layers.size()), {"gpu"}, [](const auto&) { return 1e-3; });
    for (Measurement& m : request_.profile.change().measurements) {
      for (std::size_t l = 0; l < layers.size(); ++l) {
        m.forward[l] = 1e-3 * layers[l];
        m.backward[l] = 2e-3 * layers[l];
      }
    }
    request_.minibatch = 32;
    request_.system = "gpipe";
    request_.search.systems = SystemChoice::requested;
    request_.objective = PlanObjective::throughput;
    space_.emplace(search_rows(request_).front(), 32, cuts_, none_);
    Knobs knobs = space_->first_knobs(3);
    knobs.micro_batches = 4;
    auto plan = space_->plan({{{"n0", 0}, {"n0", 1}, {"n0", 2}}}, knobs);
    ASSERT_TRUE(plan);
    int first = 0;
    for (std::size_t k = 0; k < ends.size(); ++k) {
      PlanStage& stage = plan->virtual_workers[0].stages[k];
      stage.first_layer = first;
      stage.end_layer = first = ends[k];
    }
    start_ = *std::move(plan);
  }

  Plan polished() {
    PlanScores scores(request_.cluster, request_.profile);
    scores.allow(1'000'000);
    FoundPlans found(request_, scores);
    found.add(start_, "search");
    return polish(*space_, scores, found, found.all().front(), 1'000'000).plan;
  }

  PlanRequest request_;
  CutCache cuts_;
  const std::vector<Packing> none_{};
  std::optional<SearchSpace> space_;
  Plan start_;
};

// Stages of 7, 6 and 2 ms: across the first cut alone, a layer makes 3, 10 and 2 of them; across
// the second one, 7, 2 and 6; across both, 3, 6 and 6.
TEST_F(SearchPolishCuts, MovesSeveralAtOnce) {
  request_.micro_batches = 4;
  plan_of({3, 4, 2, 4, 2}, {2, 4, 5});
  EXPECT_EQ(ends_of(polished().virtual_workers[0]), (std::vector<int>{1, 3, 5}));
}

TEST_F(SearchPolishCuts, ForOtherDepths) {
  plan_of({1, 1, 1, 1, 1, 1}, {2, 4, 6});
  const Plan plan = polished();
  EXPECT_GT(plan.micro_batches, start_.micro_batches);
}

}  // namespace search_moves_test
}  // namespace hetpipe
