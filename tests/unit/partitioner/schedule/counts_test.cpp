// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace hetpipe {
namespace counts_test {

using Rule = ScheduleRule;
using Differences = std::vector<VersionDifference>;

Schedule steady(Rule rule, const ScheduleRequest& request) {
  return generate(rule, steady_request(rule, request));
}

std::vector<int> together(Rule rule, const ScheduleRequest& request) {
  std::vector<int> counts;
  for (const HeldCounts& held : count_held(steady(rule, request))) counts.push_back(held.together);
  return counts;
}

TEST(CountHeld, GPipeHoldsAllMicroBatches) {
  for (const int m : {1, 4, 32}) {
    EXPECT_EQ(together(Rule::gpipe, {3, 1, m}), std::vector<int>(3, m));
  }
}

// S - i, and no more with more micro-batches.
TEST(CountHeld, FlushHoldsWhatLiesBelow) {
  for (const int m : {4, 8, 64}) {
    EXPECT_EQ(together(Rule::flush_1f1b, {4, 1, m}), (std::vector<int>{4, 3, 2, 1}));
  }
  EXPECT_EQ(together(Rule::flush_1f1b, {4, 1, 2}), (std::vector<int>{2, 2, 2, 1}));
}

// K_i of arXiv 2007.01045: min(S - i, D), min(2 (S - i) - 1, D)
TEST(CountHeld, DappleHoldsItsWarmUp) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (const std::optional<int> most : {std::optional<int>{}, std::optional<int>{3}}) {
      const ScheduleRequest request{stages, 1, 4 * stages, 1, most};
      const auto a = together(Rule::dapple_pa, request);
      const auto b = together(Rule::dapple_pb, request);
      for (int i = 0; i < stages; ++i) {
        const auto at = static_cast<std::size_t>(i);
        EXPECT_EQ(a[at], std::min(stages - i, most.value_or(100)));
        EXPECT_EQ(b[at], std::min(2 * (stages - i) - 1, most.value_or(100)));
      }
    }
  }
}

// Until its W a micro-batch is held: p everywhere, which is what 1F1B holds at its first stage; and
// 2 p - 1.
TEST(CountHeld, ZeroBubble) {
  for (int p = 1; p <= 8; ++p) {
    const auto n = static_cast<std::size_t>(p);
    EXPECT_EQ(together(Rule::zb_h1, {p, 1, 4 * p}), std::vector<int>(n, p));
    EXPECT_EQ(together(Rule::zb_h2, {p, 1, 4 * p}), std::vector<int>(n, 2 * p - 1));
    const auto held = count_held(generate(Rule::zb_h1, {p, 1, 4 * p}));
    for (int s = 0; s < p; ++s) EXPECT_EQ(held[static_cast<std::size_t>(s)].backwards, s + 1);
  }
}

// Warm-up and one more: 2 (p - i - 1) + (chunks - 1) p + 1 chunks of micro-batches.
TEST(CountHeld, Interleaved) {
  for (const int p : {2, 4}) {
    for (const int chunks : {2, 3}) {
      const auto counts = together(Rule::interleaved_1f1b, {p, chunks, 4 * p});
      for (int i = 0; i < p; ++i) {
        EXPECT_EQ(counts[static_cast<std::size_t>(i)], 2 * (p - i - 1) + (chunks - 1) * p + 1);
      }
    }
  }
  const auto held = count_held(generate(Rule::interleaved_1f1b, {2, 2, 4}));
  EXPECT_EQ(held[0].micro_batches, (std::vector<std::vector<int>>{{3, 2}, {4, 1}}));
}

// Where backwards are in a row, what the first one read is free when the second one's gradient is
// added to its.
TEST(CountHeld, WhileGradientsAreAdded) {
  const auto adding = [](Rule rule, const ScheduleRequest& request) {
    std::vector<int> counts;
    for (const HeldCounts& held : count_held(steady(rule, request))) {
      counts.push_back(held.together_adding);
    }
    return counts;
  };
  EXPECT_EQ(adding(Rule::gpipe, {3, 1, 5}), std::vector<int>(3, 4));
  EXPECT_EQ(adding(Rule::flush_1f1b, {4, 1, 4}), (std::vector<int>{3, 3, 2, 1}));
  EXPECT_EQ(adding(Rule::flush_1f1b, {4, 1, 8}), (std::vector<int>{4, 3, 2, 1}));
  EXPECT_EQ(adding(Rule::flush_1f1b, {2, 1, 1}), std::vector<int>(2, 0));
}

// PipeDream's versions: N - s minibatches in flight at stage s, each with its own.
TEST(CountHeld, ContinuousHoldsMinibatches) {
  for (int n = 1; n <= 6; ++n) {
    for (int in_flight = 1; in_flight <= 10; ++in_flight) {
      const auto held = count_held(steady(Rule::continuous_1f1b, {n, 1, 1, in_flight}));
      for (int s = 0; s < n; ++s) {
        const HeldCounts& here = held[static_cast<std::size_t>(s)];
        EXPECT_EQ(here.minibatches, minibatches_held(in_flight, n, StageId{s}));
        EXPECT_EQ(here.together, here.minibatches);
        EXPECT_EQ(here.passes_at_once(), 1);
        EXPECT_EQ(here.old_versions, 0);
        EXPECT_TRUE(in_flight != n || here.minibatches == n - s);
      }
    }
  }
}

// N - k micro-batches; while forwards and backwards of several micro-batches alternate, one
// prediction for each pass.
TEST(CountHeld, XPipe) {
  EXPECT_EQ(together(Rule::xpipe, {4, 1, 2}), (std::vector<int>{4, 3, 2, 1}));
  const auto held = count_held(steady(Rule::xpipe, {4, 1, 4}));
  EXPECT_EQ(held[0].passes_at_once(), 2);
  EXPECT_EQ(held[0].minibatches, 2);
  for (int stages = 1; stages <= 6; ++stages) {
    for (int micro = 1; micro <= 7; ++micro) {
      const ScheduleRequest request{stages, 1, micro};
      EXPECT_EQ(count_held(steady(Rule::xpipe, request))[0].minibatches,
                form_of(Rule::xpipe, request, StageSync::waves).in_flight);
    }
  }
}

// At most W - s minibatches; an update between the forwards of one costs an old version.
TEST(CountHeld, NF1B) {
  for (int w = 1; w <= 8; ++w) {
    for (int n = 1; n <= 5; ++n) {
      const auto held = count_held(steady(Rule::nf1b, {w, 1, n}));
      for (int s = 0; s < w; ++s) {
        const HeldCounts& here = held[static_cast<std::size_t>(s)];
        EXPECT_LE(here.minibatches, w - s);
        EXPECT_LE(here.together, (w - s) * n);
        EXPECT_EQ(here.backwards, n);
      }
      EXPECT_EQ(held.back().together, n);
      EXPECT_EQ(held.back().old_versions, 0);
    }
  }
  // The printed table has none; three micro-batches leave room for a B between them.
  const auto old = [](int w, int n) {
    const auto held = count_held(steady(Rule::nf1b, {w, 1, n}));
    return std::any_of(held.begin(), held.end(), [](const auto& h) { return h.old_versions > 0; });
  };
  EXPECT_FALSE(old(3, 2));
  EXPECT_TRUE(old(3, 3));
}

// More minibatches than steady_request asks for change no count.
TEST(SteadyRequest, IsLongEnough) {
  for (const Rule rule : {Rule::continuous_1f1b, Rule::xpipe, Rule::nf1b, Rule::flush_1f1b}) {
    for (int stages = 1; stages <= 12; ++stages) {
      for (int micro_batches = 1; micro_batches <= 9; micro_batches += 2) {
        for (const int in_flight : {1, stages, 2 * stages + 1}) {
          ScheduleRequest request = steady_request(rule, {stages, 1, micro_batches, in_flight});
          const Schedule schedule = generate(rule, request);
          request.end *= 3;
          const Schedule longer = generate(rule, request);
          ASSERT_EQ(count_held(schedule), count_held(longer)) << to_string(rule) << stages;
          ASSERT_EQ(count_version_differences(schedule), count_version_differences(longer));
          ASSERT_EQ(count_update_sequences(schedule), count_update_sequences(longer));
          if (rule != Rule::continuous_1f1b) break;
        }
      }
    }
  }
}

TEST(HeldTable, CountsOnceAndTheSame) {
  HeldTable table;
  const auto& counts = table.of(Rule::zb_h2, {4, 1, 16});
  EXPECT_EQ(&counts, &table.of(Rule::zb_h2, {4, 1, 16, 1, {}, 3, 9}));
  EXPECT_EQ(counts[1].together, 7);
  EXPECT_EQ(table.of(Rule::zb_h2, {4, 1, 3})[1].together, 3);
}

// arXiv 1809.02839: (forward, backward) of each stage as published, and its closed form for more
// stages: forward floor(k / 2) + N - k - 1, backward floor(k / 2).
TEST(VersionDifferences, SpecTrain) {
  const std::map<int, Differences> published{
      {2, {{1, 0}, {0, 0}}},
      {3, {{2, 0}, {1, 0}, {1, 1}}},
      {4, {{3, 0}, {2, 0}, {2, 1}, {1, 1}}},
      {6, {{5, 0}, {4, 0}, {4, 1}, {3, 1}, {3, 2}, {2, 2}}},
      {8, {{7, 0}, {6, 0}, {6, 1}, {5, 1}, {5, 2}, {4, 2}, {4, 3}, {3, 3}}}};
  for (const auto& [n, expected] : published) {
    const Schedule schedule = steady(Rule::continuous_1f1b, {n, 1, 1, n});
    EXPECT_EQ(count_version_differences(schedule), expected) << n;
  }
  for (int n = 1; n <= 12; ++n) {
    Differences expected;
    for (int k = 0; k < n; ++k) expected.push_back({k / 2 + n - k - 1, k / 2});
    EXPECT_EQ(count_version_differences(steady(Rule::continuous_1f1b, {n, 1, 1, n})), expected)
        << n;
  }
}

// arXiv 1911.04610: forward round((N + T - k / 2 - 2) / T), backward round((T + floor(k / 2) - 1) /
// T), halves to the even one.
Differences xpipe(int n, int t) {
  Differences differences;
  for (int k = 0; k < n; ++k) {
    differences.push_back({static_cast<int>(std::nearbyint((n + t - k / 2. - 2) / t)),
                           static_cast<int>(std::nearbyint((t + std::floor(k / 2.) - 1) / t))});
  }
  return differences;
}

// The paper's tables: [stages][micro-batches] -> (forward, backward) of each stage.
TEST(VersionDifferences, XPipe) {
  const std::map<std::pair<int, int>, Differences> published{
      {{2, 1}, {{1, 0}, {0, 0}}},
      {{2, 2}, {{1, 0}, {1, 0}}},
      {{2, 4}, {{1, 1}, {1, 1}}},
      {{4, 1}, {{3, 0}, {2, 0}, {2, 1}, {2, 1}}},
      {{4, 2}, {{2, 0}, {2, 0}, {2, 1}, {1, 1}}},
      {{4, 4}, {{2, 1}, {1, 1}, {1, 1}, {1, 1}}},
      {{4, 8}, {{1, 1}, {1, 1}, {1, 1}, {1, 1}}}};
  for (const auto& [size, expected] : published) {
    const auto [n, t] = size;
    EXPECT_EQ(xpipe(n, t), expected);
    EXPECT_EQ(count_prediction_steps(steady(Rule::xpipe, {n, 1, t})), expected)
        << n << " stages, " << t << " micro-batches";
  }
  for (int n = 1; n <= 8; ++n) {
    for (int t = 1; t <= 12; ++t) {
      EXPECT_EQ(count_prediction_steps(steady(Rule::xpipe, {n, 1, t})), xpipe(n, t))
          << n << " stages, " << t << " micro-batches";
    }
  }
}

// Drained: what other minibatches update is there before the first F, and nothing comes until the
// last B.
TEST(VersionDifferences, NoneWithAFlush) {
  for (const Rule rule : {Rule::gpipe, Rule::flush_1f1b, Rule::dapple_pb, Rule::zb_h1}) {
    EXPECT_EQ(count_version_differences(generate(rule, {4, 1, 8, 1, {}, 0, 3})), Differences(4));
  }
}

}  // namespace counts_test
}  // namespace hetpipe
