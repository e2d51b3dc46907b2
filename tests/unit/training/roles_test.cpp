// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"

namespace hetpipe {
namespace roles_test {

using testing::ElementsAre;
using testing::HasSubstr;

using Devices = std::vector<DeviceName>;

// Virtual workers of one-device stages.
Plan plan_of(const std::vector<Devices>& workers, std::vector<std::string> servers,
             bool hosted = false) {
  Plan plan;
  for (const Devices& devices : workers) {
    PlanVirtualWorker vw;
    int layer = 0;
    for (const DeviceName& device : devices) {
      PlanStage stage;
      stage.first_layer = layer++;
      stage.end_layer = layer;
      stage.devices = {device};
      vw.stages.push_back(stage);
    }
    plan.virtual_workers.push_back(vw);
  }
  plan.server = PlanServer{};
  plan.server->nodes = std::move(servers);
  plan.server->hosted = hosted;
  return plan;
}

std::vector<std::string> names(const Roles& roles) {
  std::vector<std::string> all;
  for (const Role& role : roles.of_rank) all.push_back(to_string(role));
  return all;
}

std::vector<std::vector<Rank>> first_replicas(const Roles& roles) {  // [virtual worker][stage]
  std::vector<std::vector<Rank>> ranks;
  for (const auto& stages : roles.worker) {
    ranks.emplace_back();
    for (const auto& replicas : stages) ranks.back().push_back(replicas.front());
  }
  return ranks;
}

std::string error_of(const Plan& plan, const std::vector<std::string>& hosts, Matching matching) {
  try {
    assign_roles(plan, hosts, matching);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

// n0 has three devices, n1 one.
const Plan kUnequal = plan_of({{{"n0", 2}, {"n1", 0}}, {{"n0", 0}, {"n0", 1}}}, {"n1", "n2"});

TEST(Roles, InPlanOrder) {
  const Roles roles =
      assign_roles(kUnequal, std::vector<std::string>(6, "laptop"), Matching::plan_order);
  EXPECT_THAT(names(roles),
              ElementsAre("virtual worker 0, stage 0 on n0:2", "virtual worker 0, stage 1 on n1:0",
                          "virtual worker 1, stage 0 on n0:0", "virtual worker 1, stage 1 on n0:1",
                          "parameter server 0 on n1", "parameter server 1 on n2"));
  EXPECT_EQ(first_replicas(roles),
            (std::vector<std::vector<Rank>>{{Rank{0}, Rank{1}}, {Rank{2}, Rank{3}}}));
  EXPECT_EQ(roles.server, (std::vector<Rank>{Rank{4}, Rank{5}}));
}

// Ranks come as the launcher gave them out; a node's workers take its ranks in the order of their
// devices.
TEST(Roles, ByHostsOfUnequalNodes) {
  const Roles roles = assign_roles(
      kUnequal, {"n2.lab", "n1.lab", "n0.lab", "n0.lab", "n1.lab", "n0.lab"}, Matching::hosts);
  EXPECT_THAT(names(roles),
              ElementsAre("parameter server 1 on n2", "virtual worker 0, stage 1 on n1:0",
                          "virtual worker 1, stage 0 on n0:0", "virtual worker 1, stage 1 on n0:1",
                          "parameter server 0 on n1", "virtual worker 0, stage 0 on n0:2"));
  EXPECT_EQ(first_replicas(roles),
            (std::vector<std::vector<Rank>>{{Rank{5}, Rank{1}}, {Rank{2}, Rank{3}}}));
  EXPECT_EQ(roles.server, (std::vector<Rank>{Rank{4}, Rank{0}}));
}

TEST(Roles, ServersTakeWhatIsLeftWhereTheirNodesHaveNoRank) {
  const Roles roles = assign_roles(kUnequal, {"n0", "n0", "n0", "n1", "n3", "n0"}, Matching::hosts);
  EXPECT_EQ(roles.server, (std::vector<Rank>{Rank{4}, Rank{5}}));
  EXPECT_EQ(first_replicas(roles)[1], (std::vector<Rank>{Rank{0}, Rank{1}}));
}

// A replicated stage has a rank for each device; an interleaved one's chunks share theirs.
TEST(Roles, ReplicasAndChunks) {
  Plan plan;
  plan.schedule = "interleaved-1f1b";
  PlanVirtualWorker& vw = plan.virtual_workers.emplace_back();
  const std::vector<DeviceName> pair{{"n0", 0}, {"n0", 1}};
  const std::vector<DeviceName> one{{"n1", 0}};
  for (const auto& devices : {pair, one, pair, one}) {
    const int first = static_cast<int>(vw.stages.size());
    vw.stages.push_back({.first_layer = first,
                         .end_layer = first + 1,
                         .devices = devices,
                         .shares = {},
                         .predicted = {}});
  }
  const Roles roles =
      assign_roles(plan, std::vector<std::string>(3, "laptop"), Matching::plan_order);
  EXPECT_THAT(names(roles), ElementsAre("virtual worker 0, stages 0 and 2, replica 0 on n0:0",
                                        "virtual worker 0, stages 0 and 2, replica 1 on n0:1",
                                        "virtual worker 0, stages 1 and 3 on n1:0"));
  const std::vector<Rank> both{Rank{0}, Rank{1}};
  const std::vector<Rank> last{Rank{2}};
  const std::vector<std::vector<Rank>> expected{both, last, both, last};
  EXPECT_EQ(roles.worker[0], expected);
  EXPECT_EQ(roles.coordinator(), Rank{0});
}

// A server's own node goes before the first free rank, whichever server comes first in the plan.
TEST(Roles, AServerWithoutItsNodeLeavesOtherServersTheirs) {
  const Plan plan = plan_of({{{"n0", 0}}}, {"n8", "n9"});
  const Roles roles = assign_roles(plan, {"n0", "n9", "n0"}, Matching::hosts);
  EXPECT_EQ(roles.server, (std::vector<Rank>{Rank{2}, Rank{1}}));
}

TEST(Roles, HostedServersLiveInTheFirstWorkerOfTheirNode) {
  const Plan plan = plan_of({{{"n0", 0}, {"n1", 0}}, {{"n0", 1}, {"n1", 1}}}, {"n1", "n0"}, true);
  const Roles roles = assign_roles(plan, std::vector<std::string>(4, "here"), Matching::plan_order);
  EXPECT_THAT(
      names(roles),
      ElementsAre("virtual worker 0, stage 0 on n0:0 + parameter server 1 on n0",
                  "virtual worker 0, stage 1 on n1:0 + parameter server 0 on n1",
                  "virtual worker 1, stage 0 on n0:1", "virtual worker 1, stage 1 on n1:1"));
  EXPECT_EQ(roles.server, (std::vector<Rank>{Rank{1}, Rank{0}}));
  const Roles by_hosts = assign_roles(plan, {"n1", "n1", "n0", "n0"}, Matching::hosts);
  EXPECT_EQ(by_hosts.server, (std::vector<Rank>{Rank{0}, Rank{2}}));
  EXPECT_EQ(first_replicas(by_hosts)[0], (std::vector<Rank>{Rank{2}, Rank{0}}));
}

TEST(Roles, AHostedServerNeedsAWorkerOnItsNode) {
  const Plan plan = plan_of({{{"n0", 0}}, {{"n1", 0}}}, {"n2"}, true);
  EXPECT_THAT(error_of(plan, {"a", "b"}, Matching::plan_order),
              HasSubstr("parameter server on node 'n2' is hosted"));
}

TEST(Roles, TooFewRanksOnANodeNamesEveryNodeAndWhatIsThere) {
  const std::string error =
      error_of(kUnequal, {"n0", "n0", "n7", "n7", "n7", "n7"}, Matching::hosts);
  EXPECT_THAT(error, HasSubstr("node 'n0' has 3 workers (this launch started 2 ranks there"));
  EXPECT_THAT(error, HasSubstr("node 'n1' has 1 workers (this launch started 0 ranks there"));
  EXPECT_THAT(error, HasSubstr("n0 x2, n7 x4"));
}

// Two nodes of two devices and a server's node: which ways share what.
TEST(LinkTable, DevicesOfANodeShareItsInterface) {
  Cluster cluster;
  cluster.kinds = {{.name = "a", .memory = 1, .emulate = Emulation{}}};
  cluster.nodes = {{"n0", {0, 0}}, {"n1", {0, 0}}, {"n2", {}}};
  cluster.intra_node = {.bandwidth = 8e9, .latency = 1e-6, .emulate = true};
  cluster.inter_node = {.bandwidth = 1e9, .latency = 5e-6, .emulate = true};
  const Plan plan = plan_of({{{"n0", 0}, {"n0", 1}}, {{"n1", 0}, {"n1", 1}}}, {"n2"});
  const Roles roles = assign_roles(plan, std::vector<std::string>(5, "here"), Matching::plan_order);
  const LinkTable table = make_link_table(cluster, roles);
  const auto link = [&](int from, int to) { return *table.link(Rank{from}, Rank{to}); };
  const auto share = [&](const EmulatedLink& a, const EmulatedLink& b) {
    for (int resource : a.resources) {
      for (int other : b.resources) {
        if (resource == other) return true;
      }
    }
    return false;
  };
  EXPECT_EQ(link(0, 1).bandwidth, 8e9);
  EXPECT_EQ(link(0, 2).bandwidth, 1e9);
  EXPECT_EQ(link(0, 2).latency, 5e-6);
  EXPECT_FALSE(table.link(Rank{0}, Rank{0}));
  EXPECT_FALSE(share(link(0, 1), link(1, 0))) << "each direction for itself";
  EXPECT_FALSE(share(link(0, 1), link(0, 2))) << "inside a node and out of it";
  EXPECT_TRUE(share(link(0, 2), link(1, 3))) << "both leave n0 and enter n1";
  EXPECT_TRUE(share(link(0, 2), link(1, 4))) << "both leave n0";
  EXPECT_TRUE(share(link(0, 4), link(2, 4))) << "both enter n2";
  EXPECT_FALSE(share(link(0, 2), link(2, 0))) << "out of n0 and into it";
  for (const auto& way : table.links) {
    if (!way) continue;
    for (int resource : way->resources) EXPECT_LT(resource, table.resources);
  }
}

TEST(LinkTable, RealLinksAreLeftAlone) {
  Cluster cluster;
  cluster.kinds = {{.name = "a", .memory = 1, .emulate = std::nullopt}};
  cluster.nodes = {{"n0", {0, 0}}};
  cluster.intra_node = {.bandwidth = 8e9};
  cluster.inter_node = {.bandwidth = 1e9};
  const Plan plan = plan_of({{{"n0", 0}, {"n0", 1}}}, {"n0"}, true);
  const LinkTable table =
      make_link_table(cluster, assign_roles(plan, {"here", "here"}, Matching::plan_order));
  EXPECT_EQ(table.links.size(), 4u);  // from each of two ranks to each
  for (const auto& way : table.links) EXPECT_FALSE(way);
}

}  // namespace roles_test
}  // namespace hetpipe
