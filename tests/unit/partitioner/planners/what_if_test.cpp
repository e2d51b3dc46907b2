// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"
#include "base/text.h"

namespace hetpipe {
namespace what_if_test {

using test::user_error;
using testing::HasSubstr;

const Cluster kPool = test::cluster_of({{"fast", "slow"}, {"fast", "slow"}, {}}, 1'000'000'000);

std::optional<DeviceKind> find_kind(const std::string& name) {
  if (name != "rtx-3090") return std::nullopt;
  DeviceKind kind;
  kind.name = name;
  kind.memory = 24'000'000'000;
  return kind;
}

Cluster after(const std::string& changes, const Cluster& cluster = kPool) {
  return changed_pool(cluster, changes, find_kind, {"rtx-3090"}, "--what-if").cluster;
}

// "n0: fast slow | n1: fast"
std::string text_of(const Cluster& cluster) {
  std::string text;
  for (const Node& node : cluster.nodes) {
    text += (text.empty() ? "" : " | ") + node.name + ":";
    for (const int kind : node.kinds) {
      text += " " + cluster.kinds[static_cast<std::size_t>(kind)].name;
    }
  }
  return text;
}

TEST(ChangedCluster, WhatEachChangeMeans) {
  const std::vector<std::pair<const char*, const char*>> kCases{
      {"+2 slow @n2", "n0: fast slow | n1: fast slow | n2: slow slow"},
      {"+fast@n0", "n0: fast slow fast | n1: fast slow | n2:"},
      {"+2 rtx-3090 @new", "n0: fast slow | n1: fast slow | n2: | new: rtx-3090 rtx-3090"},
      {"-n1", "n0: fast slow | n2:"},
      {"-n0:0", "n0: slow | n1: fast slow | n2:"},
      {"-1 slow", "n0: fast slow | n1: fast | n2:"},
      {"-2 slow", "n0: fast | n1: fast | n2:"},
      {"-1 fast @n0", "n0: slow | n1: fast slow | n2:"},
      {" - fast @ n0 ", "n0: slow | n1: fast slow | n2:"},
      {"-n1, +1 rtx-3090 @n0", "n0: fast slow rtx-3090 | n2:"},
      {"+1 fast @m,-m", "n0: fast slow | n1: fast slow | n2:"},
  };
  for (const auto& [change, expected] : kCases) {
    EXPECT_EQ(text_of(after(change)), expected) << change;
  }
  EXPECT_EQ(after("+1 rtx-3090 @n0").kinds.back().memory, 24'000'000'000);
}

TEST(ChangedCluster, RulesOfNodesThatAreGoneGoToo) {
  Cluster cluster = kPool;
  cluster.between.push_back({{}, {"n0", "n1"}, {1e6, 0, false}, false});
  cluster.between.push_back({{"fast", "slow"}, {}, {1e6, 0, false}, false});
  EXPECT_EQ(after("-n1", cluster).between.size(), 1u);
  EXPECT_EQ(after("-n1:0", cluster).between.size(), 2u);
}

TEST(ChangedCluster, WhatCannotBeDoneSaysWhy) {
  const std::vector<std::pair<const char*, const char*>> kCases{
      {"2 fast @n0", "neither adds nor removes"},
      {"", "contains an empty change"},
      {"-n1,", "contains an empty change"},
      {"+", "is not understood"},
      {"+1 2 fast @n0", "is not understood"},
      {"+x fast @n0", "'x' is not a number"},
      {"+0 fast @n0", "must be between 1 and"},
      {"+2 fast", "names no node"},
      {"+2 fast @", "no node follows"},
      {"+2 fast @n0:1", "'n0:1' is a device (a node is expected)"},
      {"+2 rtx-3091 @n0", "did you mean 'rtx-3090'?"},
      {"+2 fats @n0", "did you mean 'fast'?"},
      {"-nn1", "did you mean 'n1'?"},
      {"-n0:2", "node n0 has 2 devices"},
      {"-m:0", "unknown node 'm'"},
      {"-slow", "Write -1 slow"},
      {"-3 slow", "there are only 2 of that type. Remove fewer"},
      {"-2 slow @n0", "there are only 1 of that type on n0"},
      {"-1 rtx-3090", "unknown device type 'rtx-3090'"},
      {"-n0,-n1", "leaves no device"},
      {"lnks x2", "unknown change 'lnks' (did you mean 'links'?). Write +N TYPE @NODE"},
      {"links", "says neither x nor ="},
      {"links = 1e9", "Write links x2, or intra = and inter ="},
      {"links x0", "must be above 0"},
      {"links xtwo", "'two' is not a number"},
      {"links n0 x2", "'n0' is one word too many"},
      {"inter =", "no number follows"},
      {"inter = fast", "'fast' is not a bandwidth. Write bytes per second"},
      {"inter = -1", "must be above 0"},
      {"link n0 x2", "Write link NODE NODE x2"},
      {"link n0 n0 x2", "both are one node"},
      {"link n0 fast x2", "a node and a device type have no link"},
      {"link n0 n9 x2", "unknown node or device type 'n9'"},
      {"link fast slow x2", "Write a bandwidth: link fast slow = 12.5e9"},
      {"minibatch x2", "Write minibatch = 64"},
      {"minibatch = 1.5", "is not a number of samples"},
      {"minibatch = 0", "is not a number of samples"},
  };
  for (const auto& [change, expected] : kCases) {
    const std::string error = user_error([&, change = change] { after(change); });
    EXPECT_THAT(error, HasSubstr(expected)) << change;
    EXPECT_THAT(error, testing::StartsWith("--what-if: ")) << change;
  }
  Cluster alone = test::cluster_of({{"fast"}}, 1'000'000'000);
  alone.inter_node = {};
  EXPECT_THAT(user_error([&] { after("+1 fast @n1", alone); }), HasSubstr("[link.inter_node]"));
}

TEST(ChangedPool, LinksAndSettings) {
  Cluster cluster = kPool;  // 10e9 within nodes, 1e9 between them
  cluster.between.push_back({{}, {"n0", "n1"}, {1e6, 0, false}, false});
  const auto bandwidths = [&](const char* changes) {
    const Cluster now = after(changes, cluster);
    std::vector<double> all{now.intra_node.bandwidth, now.inter_node.bandwidth};
    for (const LinkBetween& rule : now.between) all.push_back(rule.link.bandwidth);
    return all;
  };
  using Bandwidths = std::vector<double>;
  EXPECT_EQ(bandwidths("links x2"), (Bandwidths{20e9, 2e9, 2e6}));
  EXPECT_EQ(bandwidths("intra x0.5"), (Bandwidths{5e9, 1e9, 1e6}));
  EXPECT_EQ(bandwidths("inter x2,intra=3e9"), (Bandwidths{3e9, 2e9, 1e6}));
  EXPECT_EQ(bandwidths("inter = 100Gb/s"), (Bandwidths{10e9, 12.5e9, 1e6}));
  EXPECT_EQ(bandwidths("link n1 n0 x3"), (Bandwidths{10e9, 1e9, 3e6}));
  EXPECT_EQ(bandwidths("link n0 n2 x3"), (Bandwidths{10e9, 1e9, 1e6, 3e9}));
  EXPECT_EQ(bandwidths("link fast slow = 5e9"), (Bandwidths{10e9, 1e9, 1e6, 5e9}));
  // The latency stays.
  EXPECT_EQ(after("link n0 n2 x3", cluster).link({"n0", 0}, {"n2", -1}).latency, 50e-6);
  const PoolChange pool = changed_pool(kPool, "minibatch = 64, -n1", find_kind, {}, "--what-if");
  EXPECT_EQ(pool.settings, (PlanSettings{64, {}, {}}));
  EXPECT_EQ(text_of(pool.cluster), "n0: fast slow | n2:");
  const auto settings = [](const char* changes) {
    return changed_pool(kPool, changes, find_kind, {}, "--what-if").settings;
  };
  EXPECT_EQ(settings("links x2"), PlanSettings{});
  EXPECT_EQ(settings("in-flight = 4, clock-distance = 0"), (PlanSettings{{}, 4, 0}));
  const std::vector<std::pair<const char*, const char*>> kRefused{
      {"in-flight x2", "Write in-flight = 4."},
      {"in-flight = 0", "a whole one between 1 and 10000"},
      {"clock-distance = 1.5", "not a number of waves"},
      {"in_flight = 2", "did you mean 'in-flight'?"}};
  for (const auto& refused : kRefused) {
    EXPECT_THAT(user_error([&] { settings(refused.first); }), HasSubstr(refused.second))
        << refused.first;
  }
}

// "n0:0 was n0:1, ..."
TEST(ChangedPool, WhatDevicesWereCalled) {
  const std::vector<std::pair<const char*, const char*>> kCases{
      {"links x2", "n0:0=n0:0 n0:1=n0:1 n1:0=n1:0 n1:1=n1:1"},
      {"-n0:0", "n0:0=n0:1 n1:0=n1:0 n1:1=n1:1"},
      {"-n0", "n1:0=n1:0 n1:1=n1:1"},
      {"-1 fast @n1, +2 slow @n1", "n0:0=n0:0 n0:1=n0:1 n1:0=n1:1"},
      {"-n0:0, -n0:0, +fast @n0", "n1:0=n1:0 n1:1=n1:1"},
      {"+fast @new, -n1:1", "n0:0=n0:0 n0:1=n0:1 n1:0=n1:0"},
  };
  for (const auto& [change, expected] : kCases) {
    std::vector<std::string> names;
    for (const auto& [now, before] :
         changed_pool(kPool, change, find_kind, {}, "--what-if").before) {
      names.push_back(to_string(now) + "=" + to_string(before));
    }
    EXPECT_EQ(join(names, " "), expected) << change;
  }
}

PlanRequest request() {
  PlanRequest request;
  request.cluster = kPool;
  request.profile = test::chain_of(12, {"fast", "slow"},
                                   [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  return request;
}

TEST(WhatIf, EachPoolIsPlannedAndCompared) {
  const PlanRequest asked = request();
  const Plan plan = make_plan(asked);
  const auto answers = what_if(
      asked, plan,
      {{"-n1", after("-n1"), asked.profile}, {"+2 fast @n2", after("+2 fast @n2"), asked.profile}});
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0].change, "");
  EXPECT_EQ(answers[0].devices, 4);
  EXPECT_EQ(answers[1].devices, 2);
  PlanRequest smaller = asked;
  smaller.cluster = after("-n1");
  EXPECT_EQ(answers[1].plan, make_plan(smaller));
  EXPECT_DOUBLE_EQ(answers[1].relative, answers[1].throughput / plan.predicted->throughput - 1);
  EXPECT_LT(answers[1].relative, -0.3);
  EXPECT_GT(answers[2].relative, 0.1);
  const auto deeper = what_if(asked, plan, {{"", asked.cluster, asked.profile, {32, 3, 1}}})[1];
  EXPECT_EQ(deeper.plan->minibatch, 32);
  EXPECT_EQ(deeper.plan->in_flight, 3);
  EXPECT_EQ(deeper.plan->server->clock_distance, 1);
  const std::string table = what_if_table(answers, asked);
  for (const char* part :
       {"as it is", "-n1", "+2 fast @n2", "compute", "%", "change of samples/s"}) {
    EXPECT_THAT(table, HasSubstr(part));
  }
}

TEST(WhatIf, APoolOnWhichNothingFitsIsAnswered) {
  PlanRequest asked = request();
  for (ProfileLayer& layer : asked.profile.change().layers) layer.parameter_bytes = 25'000'000;
  const Plan plan = make_plan(asked);  // 300 MB of weights, and their gradients, momentum, ...
  const auto answers = what_if(asked, plan, {{"-n1,-1 slow", after("-n1,-1 slow"), asked.profile}});
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_FALSE(answers[1].plan);
  EXPECT_THAT(answers[1].why_not, HasSubstr("no partition of the model fits"));
  EXPECT_THAT(what_if_table(answers, asked), HasSubstr("none"));
}

// What the planner chose by is what the answers compare.
TEST(WhatIf, ChangesAreOfTheObjective) {
  PlanRequest asked = request();
  asked.objective = PlanObjective::time_to_accuracy;
  asked.critical_batch = 100;
  const Plan plan = make_plan(asked);
  const auto answers = what_if(asked, plan, {{"-n1", after("-n1"), asked.profile}});
  ASSERT_EQ(answers.size(), 2u);
  ASSERT_TRUE(answers[1].plan);
  EXPECT_DOUBLE_EQ(answers[1].worth, asked.worth(*answers[1].plan, answers[1].throughput));
  EXPECT_DOUBLE_EQ(answers[1].relative, answers[1].worth / answers[0].worth - 1);
  EXPECT_GT(answers[1].relative, answers[1].relative_throughput + 0.01);
  const auto deeper = what_if(asked, plan, {{"", asked.cluster, asked.profile, {32, 3, 1}}})[1];
  EXPECT_EQ(deeper.plan->minibatch, 32);
  EXPECT_EQ(deeper.plan->in_flight, 3);
  EXPECT_EQ(deeper.plan->server->clock_distance, 1);
  const std::string table = what_if_table(answers, asked);
  EXPECT_THAT(table, HasSubstr("change of worth"));
  EXPECT_THAT(table, HasSubstr(format("%.4g", answers[1].throughput)));
}

TEST(WhatIf, AnotherMinibatchIsPlanned) {
  const PlanRequest asked = request();
  const auto answers =
      what_if(asked, make_plan(asked), {{"minibatch = 64", kPool, asked.profile, {64, {}, {}}}});
  ASSERT_TRUE(answers[1].plan);
  EXPECT_EQ(answers[0].plan->minibatch, 32);
  EXPECT_EQ(answers[1].plan->minibatch, 64);
}

}  // namespace what_if_test
}  // namespace hetpipe
