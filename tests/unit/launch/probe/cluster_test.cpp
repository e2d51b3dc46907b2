// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/fields_json.h"
#include "invented.h"
#include "launch/probe/probed.h"

namespace hetpipe {
namespace cluster_test {

using test::rank_on;
using test::rtx_3090;
using test::unknown_card;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// What was measured of a pool; of links what `link` says of each, in bytes/s (0: no answer).
template <class Link>
Probed probed(const std::vector<ProbeFacts>& facts, Link link) {
  Probed result{
      .pool = decide_pool(facts, ProbeFor::whatever_there_is), .devices = {}, .links = {}};
  for (std::size_t k = 0; k < result.pool.kinds.size(); ++k) {
    DeviceNumbers numbers;
    numbers.fp32_flops = 24.92e12;
    numbers.usual_flops = 61.234e12;
    numbers.copies = {400e9, 12e9, 13e9};
    result.devices.push_back(numbers);
    result.pool.kinds[k].usual = Precision::bf16;
  }
  for (const LinkTest& test : decide_link_tests(result.pool)) {
    LinkResult one{.test = test, .numbers = {}, .failure = "no answer within 10 s"};
    const double bandwidth = link(test);
    if (bandwidth > 0) {
      one.numbers = LinkNumbers{1e-5, bandwidth, bandwidth * 1.1, 1 << 20};
      one.failure.clear();
    }
    result.links.push_back(one);
  }
  return result;
}

// "rtx-3090 marvel-x1 2e+09; n0 n1 1e+08"
std::string rules(const Cluster& cluster) {
  std::string text;
  for (const LinkBetween& rule : cluster.between) {
    const auto& pair = rule.kinds.empty() ? rule.nodes : rule.kinds;
    text += (text.empty() ? "" : "; ") + pair[0] + " " + pair[1] + " " +
            std::to_string(static_cast<long>(rule.link.bandwidth / 1e6));
  }
  return text;
}

std::vector<ProbeFacts> two_kinds_on_two_nodes() {
  std::vector<ProbeFacts> facts;
  for (const char* host : {"n0", "n1"}) {
    for (const char* id : {"a", "b"})
      facts.push_back(rank_on(host, {rtx_3090(host + std::string(id))}));
    for (const char* id : {"c", "d"}) {
      facts.push_back(rank_on(host, {unknown_card(host + std::string(id))}));
    }
  }
  return facts;
}

bool of_kind(const std::vector<ProbeFacts>& facts, int rank, const char* name) {
  return facts[static_cast<std::size_t>(rank)].cards[0].gpu.name == name;
}

TEST(ProbedCluster, KnownAndUnknownCards) {
  const auto facts = two_kinds_on_two_nodes();
  const Cluster cluster = decide_cluster(probed(facts, [&](const LinkTest&) { return 10e9; }));
  ASSERT_EQ(cluster.kinds.size(), 2u);
  const DeviceKind& known = cluster.kinds[0];
  EXPECT_EQ(known.name, "rtx-3090");
  EXPECT_EQ(known.memory, static_cast<std::int64_t>(23.5 * test::kGiB));
  EXPECT_DOUBLE_EQ(known.peak_flops, 35.6e12);
  EXPECT_DOUBLE_EQ(known.fp32_efficiency, 0.7);  // of 35.6 Tflop/s
  EXPECT_DOUBLE_EQ(known.plan_share, kUsualPlanShare);
  const DeviceKind& unknown = cluster.kinds[1];
  EXPECT_EQ(unknown.name, "marvel-x1");
  EXPECT_DOUBLE_EQ(unknown.peak_flops, 24.9e12);
  EXPECT_DOUBLE_EQ(unknown.peak_flops_fp16, 61.2e12);
  EXPECT_DOUBLE_EQ(unknown.fp32_efficiency, 1);
  EXPECT_DOUBLE_EQ(unknown.memory_bandwidth, 900e9);
  EXPECT_EQ(rules(cluster), "");
}

TEST(ProbedCluster, SlowPairsOfKinds) {
  const auto facts = two_kinds_on_two_nodes();
  // 3090 and Marvel do not get along, wherever they are.
  const auto slow = [&](const LinkTest& test) {
    const bool mixed = of_kind(facts, test.from, "NVIDIA Marvel X1") !=
                       of_kind(facts, test.to, "NVIDIA Marvel X1");
    return mixed ? 2e9 : (test.from < 4) == (test.to < 4) ? 12e9 : 6e9;
  };
  const Cluster cluster = decide_cluster(probed(facts, slow));
  EXPECT_DOUBLE_EQ(cluster.intra_node.bandwidth, 12e9);
  EXPECT_DOUBLE_EQ(cluster.inter_node.bandwidth, 6e9);
  EXPECT_EQ(rules(cluster), "rtx-3090 marvel-x1 2000");
}

TEST(ProbedCluster, ARuleOfKindsWouldBeWrongWhereTheyDiffer) {
  const auto facts = two_kinds_on_two_nodes();
  // Slow inside of n1 alone: a rule of kinds would slow n0 as well.
  const auto slow = [&](const LinkTest& test) {
    return test.from >= 4 ? 3e9 : test.to >= 4 ? 6e9 : 12e9;
  };
  EXPECT_EQ(rules(decide_cluster(probed(facts, slow))), "n1 n1 3000");
}

TEST(ProbedCluster, ASlowPairOfNodes) {
  const std::vector<ProbeFacts> facts{
      rank_on("n0", {rtx_3090("a")}), rank_on("n0", {rtx_3090("b")}),
      rank_on("n1", {rtx_3090("c")}), rank_on("n2", {rtx_3090("d")})};
  const auto slow = [](const LinkTest& test) {
    return test.to == 3 ? 0.116e9 : test.to == 2 ? 5.9e9 : 12e9;
  };
  const Cluster cluster = decide_cluster(probed(facts, slow));
  EXPECT_DOUBLE_EQ(cluster.inter_node.bandwidth, 5.9e9);
  EXPECT_EQ(rules(cluster), "n0 n2 116; n1 n2 116");
}

TEST(ProbedCluster, RanksOnOneCardStandInOnlyWhereNothingElseIs) {
  const std::vector<ProbeFacts> shared{rank_on("n0", {rtx_3090("a")}),
                                       rank_on("n0", {rtx_3090("a")})};
  EXPECT_DOUBLE_EQ(
      decide_cluster(probed(shared, [](const LinkTest&) { return 7e9; })).intra_node.bandwidth,
      7e9);
  const std::vector<ProbeFacts> both{rank_on("n0", {rtx_3090("a")}), rank_on("n0", {rtx_3090("a")}),
                                     rank_on("n1", {rtx_3090("b")}),
                                     rank_on("n1", {rtx_3090("c")})};
  const auto link = [](const LinkTest& test) {
    return test.from == 0 && test.to == 1 ? 90e9 : 5e9;
  };
  EXPECT_DOUBLE_EQ(decide_cluster(probed(both, link)).intra_node.bandwidth, 5e9);
}

TEST(ProbedCluster, LinksOfACardStandBesideIt) {
  SeenCard left = rtx_3090("a", 0);
  left.pcie = "4.0 x16";
  left.gpu.numa_node = 1;
  left.nvlink = {{"0000:01:00.0", 4, 14e9}, {"", 1, 0}, {"0000:99:00.0", 2, 0}};
  std::vector<ProbeFacts> facts{rank_on("n0", {left}), rank_on("n0", {rtx_3090("b", 1)})};
  facts[1].why_no_nvlink = "NVML: no driver";
  for (ProbeFacts& of : facts) of = from_text<ProbeFacts>(to_text(of));
  EXPECT_EQ(facts[0].cards[0].nvlink, left.nvlink);
  const Probed all = probed(facts, [](const LinkTest&) { return 8e9; });
  const std::string text = cluster_file(all, facts);
  EXPECT_EQ(parse_cluster(text, "cluster.toml"), decide_cluster(all)) << text;
  EXPECT_THAT(text, HasSubstr("# 0: a, 0000:00:00.0 (PCIe 4.0 x16, NUMA node 1, 4 NVLinks of "
                              "14.0 GB/s to n0:1, 1 NVLink to switches, 2 NVLinks to "
                              "0000:99:00.0)\n"));
  EXPECT_THAT(text, HasSubstr("# NVLinks of n0 are not known: NVML: no driver\n"));
  const Json json = Json::parse(probe_json(all, facts, "c.toml"));
  EXPECT_EQ(json.at("devices").at(0).at("nvlink").at(0).at("to"), "0000:01:00.0");
  EXPECT_EQ(json.at("devices").at(0).at("nvlink").at(0).at("links"), 4);
  EXPECT_EQ(json.at("devices").at(1).at("nvlink").size(), 0u);
  EXPECT_EQ(json.at("ranks").at(1).at("why_no_nvlink"), "NVML: no driver");
}

TEST(ProbedCluster, TheFileIsReadBackAsDecided) {
  std::vector<ProbeFacts> facts = two_kinds_on_two_nodes();
  facts.push_back(rank_on("server"));
  facts[0].driver = "580.95.05";
  const Probed all = probed(facts, [](const LinkTest& test) { return test.to == 8 ? 1e9 : 8e9; });
  const std::string text = cluster_file(all, facts);
  EXPECT_EQ(parse_cluster(text, "cluster.toml"), decide_cluster(all)) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("# driver 580.95.05"),
                          HasSubstr("# NVIDIA GeForce RTX 3090: 25.2 GB of 25.8 GB were free"),
                          HasSubstr("# 1: n0b, 0000:00:00.0\n"),
                          HasSubstr("# rank 0 on n0:0 - rank 8 on server: 1.0 GB/s there")));
  EXPECT_THAT(text, HasSubstr("name = \"server\"\ndevices = []"));
  EXPECT_THAT(probe_tables(all, facts), AllOf(HasSubstr("marvel-x1"), HasSubstr("n1:3"),
                                              HasSubstr("note: server (rank 8) has no card")));
  const Json json = Json::parse(probe_json(all, facts, "c.toml"));
  EXPECT_EQ(json.at("complete"), true);
  EXPECT_EQ(json.at("devices").size(), 8u);
  EXPECT_EQ(json.at("devices").at(2).at("compute_capability"), "8.6");
  EXPECT_EQ(json.at("links").size(), all.links.size());
}

TEST(ProbedCluster, WhatDidNotAnswerIsNamedAndAskedFor) {
  const std::vector<ProbeFacts> facts{rank_on("n0", {rtx_3090("a")}),
                                      rank_on("n0", {rtx_3090("b")}),
                                      rank_on("n1", {rtx_3090("c")})};
  const Probed lost = probed(facts, [](const LinkTest& test) { return test.to == 2 ? 0 : 9e9; });
  EXPECT_FALSE(lost.complete());
  const std::string text = cluster_file(lost, facts);
  EXPECT_THAT(text, HasSubstr("# rank 0 on n0:0 - rank 2 on n1:0: no answer within 10 s"));
  try {
    parse_cluster(text, "cluster.toml");
    FAIL() << "a link that was not measured was planned with";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("[link.inter_node] is missing"));
  }
  // One that answers is enough for the file.
  const std::vector<ProbeFacts> more{facts[0], facts[1], facts[2], rank_on("n2", {rtx_3090("d")})};
  const Probed some = probed(more, [](const LinkTest& test) { return test.to == 2 ? 0 : 9e9; });
  EXPECT_THAT(cluster_file(some, more), HasSubstr("rank 2 on n1:0: no answer within 10 s"));
  EXPECT_EQ(parse_cluster(cluster_file(some, more), "c"), decide_cluster(some));
}

}  // namespace cluster_test
}  // namespace hetpipe
