// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/exchange_parts.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/index.h"
#include "base/random.h"

namespace hetpipe {
namespace exchange_parts_test {

using Ranks = std::vector<std::vector<std::vector<Rank>>>;

PlanStage stage(int first, int end, int replicas = 1, std::vector<int> shares = {}) {
  PlanStage made;
  made.first_layer = first;
  made.end_layer = end;
  made.devices.resize(at(replicas));
  made.shares = std::move(shares);
  return made;
}

// Ranks in plan order, one per stage and replica.
Ranks numbered(const std::vector<PlanVirtualWorker>& workers, int& ranks) {
  Ranks of;
  ranks = 0;
  for (const PlanVirtualWorker& vw : workers) {
    of.emplace_back();
    for (const PlanStage& s : vw.stages) {
      of.back().emplace_back();
      for (std::size_t r = 0; r < s.devices.size(); ++r) of.back().back().emplace_back(ranks++);
    }
  }
  return of;
}

ExchangePart part(int number, FlatRange range, std::vector<int> group, int place) {
  ExchangePart made{.number = number, .range = range, .group = {}, .place = place};
  for (const int r : group) made.group.emplace_back(r);
  return made;
}

// Layers      0 1 2 3, of 1 2 4 8 floats
// worker 0    0|1 1 1
// worker 1    2 2 2|3
TEST(ExchangeParts, RunsOfLayersThatTheSameRanksHold) {
  const std::vector<PlanVirtualWorker> workers{{{}, {stage(0, 1), stage(1, 4)}},
                                               {{}, {stage(0, 3), stage(3, 4)}}};
  int ranks = 0;
  const Ranks of = numbered(workers, ranks);
  const auto parts = exchange_parts({workers, of, {1, 2, 4, 8}}, ExchangeScope::everybody, ranks);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0], (std::vector{part(0, {0, 1}, {0, 2}, 0)}));
  EXPECT_EQ(parts[1], (std::vector{part(1, {0, 6}, {1, 2}, 0), part(2, {6, 8}, {1, 3}, 0)}));
  EXPECT_EQ(parts[2], (std::vector{part(0, {0, 1}, {0, 2}, 1), part(1, {1, 6}, {1, 2}, 1)}));
  EXPECT_EQ(parts[3], (std::vector{part(2, {0, 8}, {1, 3}, 1)}));
  for (const auto& none :
       exchange_parts({workers, of, {1, 2, 4, 8}}, ExchangeScope::virtual_worker, ranks)) {
    EXPECT_TRUE(none.empty());
  }
}

// Replicas alone under waves; with the other virtual worker's, in its order, otherwise.
TEST(ExchangeParts, ReplicasOfAStage) {
  const std::vector<PlanVirtualWorker> workers{{{}, {stage(0, 1, 2), stage(1, 2)}},
                                               {{}, {stage(0, 2, 2)}}};
  int ranks = 0;
  const Ranks of = numbered(workers, ranks);
  const ExchangePlan plan{workers, of, {3, 5}};
  const auto alone = exchange_parts(plan, ExchangeScope::virtual_worker, ranks);
  EXPECT_EQ(alone[0], (std::vector{part(0, {0, 3}, {0, 1}, 0)}));
  EXPECT_EQ(alone[1], (std::vector{part(0, {0, 3}, {0, 1}, 1)}));
  EXPECT_TRUE(alone[2].empty());
  EXPECT_EQ(alone[4], (std::vector{part(1, {0, 8}, {3, 4}, 1)}));
  const auto all = exchange_parts(plan, ExchangeScope::everybody, ranks);
  EXPECT_EQ(all[4], (std::vector{part(0, {0, 3}, {0, 1, 3, 4}, 3), part(1, {3, 5}, {2, 3, 4}, 2)}));
}

// Two chunks on one rank: one flat array behind the other.
//   layers     0 1 | 2 | 3     floats 2 3 0 2, chunks on ranks 0, 1, 0
TEST(ExchangeParts, Chunks) {
  const std::vector<PlanVirtualWorker> workers{{{}, {stage(0, 2), stage(2, 3), stage(3, 4)}},
                                               {{}, {stage(0, 4)}}};
  const Ranks of{{{Rank{0}}, {Rank{1}}, {Rank{0}}}, {{Rank{2}}}};
  const ExchangePlan plan{workers, of, {2, 3, 0, 2}};
  const auto parts = exchange_parts(plan, ExchangeScope::everybody, 3);
  EXPECT_EQ(parts[0], (std::vector{part(0, {0, 5}, {0, 2}, 0), part(1, {5, 2}, {0, 2}, 0)}));
  EXPECT_TRUE(parts[1].empty());
  EXPECT_EQ(parts[2], (std::vector{part(0, {0, 5}, {0, 2}, 1), part(1, {5, 2}, {0, 2}, 1)}));
}

// What any cuts give: every layer's holders are together in one sum, in their order, and no float
// is in two.
TEST(ExchangeParts, EveryLayerOfRandomPlansIsInOneSumOfAllItsHolders) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::uint64_t draws = 0;
    const auto draw = [&](int below) {
      return static_cast<int>(random_bits(random_key({seed}), draws++) %
                              static_cast<std::uint64_t>(below));
    };
    const int layers = 1 + draw(6);
    std::vector<std::int64_t> floats;
    for (int l = 0; l < layers; ++l) floats.push_back(draw(4));
    std::vector<PlanVirtualWorker> workers;
    for (int i = 1 + draw(3); i > 0; --i) {
      PlanVirtualWorker& vw = workers.emplace_back();
      for (int first = 0; first < layers;) {
        const int end = first + 1 + draw(layers - first);
        vw.stages.push_back(stage(first, end, 1 + draw(3)));
        first = end;
      }
    }
    int ranks = 0;
    const Ranks of = numbered(workers, ranks);
    const auto parts = exchange_parts({workers, of, floats}, ExchangeScope::everybody, ranks);
    // [rank][float of the flat array] -> group
    for (int l = 0; l < layers; ++l) {
      if (floats[at(l)] == 0) continue;
      std::vector<Rank> holders;
      for (std::size_t i = 0; i < workers.size(); ++i) {
        for (std::size_t k = 0; k < workers[i].stages.size(); ++k) {
          const PlanStage& s = workers[i].stages[k];
          if (l < s.first_layer || l >= s.end_layer) continue;
          holders.insert(holders.end(), of[i][k].begin(), of[i][k].end());
        }
      }
      for (std::size_t i = 0; i < workers.size(); ++i) {
        for (std::size_t k = 0; k < workers[i].stages.size(); ++k) {
          const PlanStage& s = workers[i].stages[k];
          if (l < s.first_layer || l >= s.end_layer) continue;
          const std::int64_t first =
              std::accumulate(floats.begin() + s.first_layer, floats.begin() + l, std::int64_t{0});
          for (const Rank rank : of[i][k]) {
            int found = 0;
            for (const ExchangePart& p : parts[at(rank.value)]) {
              if (first < p.range.offset || first >= p.range.offset + p.range.count) continue;
              ++found;
              EXPECT_EQ(p.group, holders);
              EXPECT_EQ(p.group[at(p.place)], rank);
              EXPECT_LE(first + floats[at(l)], p.range.offset + p.range.count);
            }
            EXPECT_EQ(found, holders.size() > 1 ? 1 : 0);
          }
        }
      }
    }
  }
}

TEST(MeanFactors, AreSharesOfTheSamples) {
  const std::vector<PlanVirtualWorker> workers{{{}, {stage(0, 1, 2, {3, 1}), stage(1, 2)}},
                                               {{}, {stage(0, 2, 2)}}};
  int ranks = 0;
  const Ranks of = numbered(workers, ranks);
  const ExchangePlan plan{workers, of, {3, 5}};
  using Factors = std::vector<MeanFactor>;
  const auto alone = mean_factors(plan, ExchangeScope::virtual_worker, {8, 24}, 1, ranks);
  EXPECT_EQ(alone[0], (Factors{{{0, 3}, .75f}}));
  EXPECT_EQ(alone[1], (Factors{{{0, 3}, .25f}}));
  EXPECT_EQ(alone[2], (Factors{{{0, 5}, 1}}));
  const auto all = mean_factors(plan, ExchangeScope::everybody, {8, 24}, 1, ranks);
  EXPECT_EQ(all[0], (Factors{{{0, 3}, .1875f}}));
  EXPECT_EQ(all[2], (Factors{{{0, 5}, .25f}}));
  EXPECT_EQ(all[4], (Factors{{{0, 8}, .375f}}));
  // Micro-batches of 3 samples: 2 and 1.
  EXPECT_EQ(mean_factors(plan, ExchangeScope::virtual_worker, {8, 24}, 8, ranks)[3],
            (Factors{{{0, 8}, static_cast<float>(2 / 3.)}}));
}

}  // namespace exchange_parts_test
}  // namespace hetpipe
