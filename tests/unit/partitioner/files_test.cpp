// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cases.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {
namespace files_test {

using test::user_error;
using testing::HasSubstr;

const char kCluster[] = R"(format = 1
[device.titan-v]
memory = 12_000_000_000
peak_flops = 14.9e12
[device.small]
memory = 1000000
gpus = 8
emulate = { slowdown = 3.0 }
[[node]]
name = "n[0-1]"
devices = ["titan-v", "small"]
[[node]]
name = "server"
devices = []
[link.intra_node]
bandwidth = 12e9
latency = 10e-6
[link.inter_node]
bandwidth = 6e9
emulate = true
[[link.between]]
kinds = ["small", "titan-v"]
bandwidth = 0.1e9
[[link.between]]
nodes = ["n0", "server"]
bandwidth = 0.2e9
latency = 1e-3
)";

TEST(ClusterFile, ReadsWhatTheContractSays) {
  const Cluster c = parse_cluster(kCluster, "c.toml");
  ASSERT_EQ(c.kinds.size(), 2u);
  EXPECT_EQ(c.kinds[0].name, "titan-v");  // in the file's order
  EXPECT_EQ(c.kinds[0].memory, 12'000'000'000);
  EXPECT_EQ(c.kinds[0].peak_flops, 14.9e12);
  EXPECT_EQ(c.kinds[1].gpus, 8);
  EXPECT_EQ(c.kinds[1].emulate->slowdown, 3.0);
  ASSERT_EQ(c.nodes.size(), 3u);
  EXPECT_EQ(c.nodes[1].name, "n1");
  EXPECT_EQ(c.nodes[1].kinds, (std::vector<int>{0, 1}));
  EXPECT_TRUE(c.nodes[2].kinds.empty());
  EXPECT_TRUE(c.emulated());
  EXPECT_EQ(c.devices().size(), 4u);
  EXPECT_EQ(c.kind_of({"n1", 1}).name, "small");
  EXPECT_FALSE(c.has({"n1", 2}));
  EXPECT_FALSE(c.has({"server", 0}));
}

TEST(Cluster, LinksFollowTheRules) {
  const Cluster c = parse_cluster(kCluster, "c.toml");
  EXPECT_EQ(c.link({"n0", 0}, {"n1", 0}), (Link{6e9, 0, true}));
  EXPECT_EQ(c.link({"n0", -1}, {"n0", 0}), (Link{12e9, 10e-6, false}));
  EXPECT_EQ(c.link({"n0", 0}, {"n1", 1}), (Link{0.1e9, 0, true}));          // by kind
  EXPECT_EQ(c.link({"n0", 1}, {"n0", 0}), (Link{0.1e9, 10e-6, false}));     // latency stays
  EXPECT_EQ(c.link({"server", -1}, {"n0", 0}), (Link{0.2e9, 1e-3, true}));  // by node
  EXPECT_EQ(c.link({"server", -1}, {"n1", 1}), (Link{6e9, 0, true}));       // no kind rule
  EXPECT_DOUBLE_EQ(c.link({"n0", -1}, {"n0", 0}).transfer_seconds(12e9), 1 + 10e-6);
}

TEST(ClusterFile, RoundTrip) {
  const Cluster c = parse_cluster(kCluster, "c.toml");
  EXPECT_EQ(parse_cluster(to_toml(c), "again"), c);
  EXPECT_EQ(to_toml(parse_cluster(to_toml(c), "again")), to_toml(c));
}

TEST(ClusterFile, PlansTakeAShareOfTheMemory) {
  const std::string text =
      "format = 1\n[device.a]\nmemory = 1_000_000\n[device.b]\nmemory = 1_000_000\nplan_share = "
      "0.5\n[[node]]\nname = \"n\"\ndevices = [\"a\", \"b\", \"rtx-3090\"]\n[link.intra_node]\n"
      "bandwidth = 1e9\n";
  const Cluster c = parse_cluster(text, "c.toml");
  EXPECT_EQ(c.kind_of({"n", 0}).for_plans(), 950'000);
  EXPECT_EQ(c.kind_of({"n", 1}).for_plans(), 500'000);
  EXPECT_EQ(c.kind_of({"n", 2}).plan_share, kUsualPlanShare);  // of the catalogue
  EXPECT_EQ(memory_for_plans(c.kind_of({"n", 1})), "500 kB (50 % of 1.0 MB)");
  EXPECT_EQ(parse_cluster(to_toml(c), "again"), c);
}

TEST(ClusterFile, ReportsEverythingAtOnce) {
  const std::string error = user_error([] {
    parse_cluster(R"(format = 1
[device.a]
memroy = 5
[device.b]
memory = 0
gpus = -2
[device.c]
memory = "lots"
[device.d]
memory = 1e30
emulate = { speed = 2 }
[[node]]
name = "n0"
devices = ["aa", 5]
[[node]]
name = "n0"
devices = ["b"]
[[node]]
name = "n[0-"
devices = ["a"]
[link.intra_node]
bandwidth = -5
latency = 100
[[link.between]]
kinds = ["a"]
bandwidth = 1e9
[[link.between]]
kinds = ["a", "z"]
bandwidth = 1e9
colour = "red"
)",
                  "c.toml");
  });
  for (const char* part :
       {"c.toml:2: [device.a]: memory is missing",
        "c.toml:3: [device.a]: unknown key 'memroy' (did you mean 'memory'?)",
        "c.toml:5: [device.b]: memory = 0 (must be positive)",
        "c.toml:6: [device.b]: gpus = -2 (must be positive)",
        "c.toml:8: [device.c]: memory is a string (it must be a whole number)",
        "c.toml:10: [device.d]: memory is a number (it must be a whole number)",
        "slowdown is missing", "unknown key 'speed'",
        "c.toml:14: [[node]]: an item of devices is a whole number (it must be a string)",
        "c.toml:19: node name 'n[0-' does not expand",
        "c.toml:22: [link.intra_node]: bandwidth = -5",
        "c.toml:23: [link.intra_node]: latency = 100 (must be between 0 and 60)",
        "c.toml:24: [[link.between]] names no pair", "unknown device type 'z'",
        "c.toml:30: [[link.between]]: unknown key 'colour'"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
}

TEST(ClusterFile, MissingLinksAndDuplicates) {
  const std::string error = user_error([] {
    parse_cluster(R"(format = 1
[device.a]
memory = 5
[[node]]
name = "n[0-1]"
devices = ["a"]
[[node]]
name = "n1"
devices = ["abacus"]
)",
                  "c.toml");
  });
  EXPECT_THAT(error, HasSubstr("c.toml:8: node 'n1' is declared twice"));
  EXPECT_THAT(error,
              HasSubstr("c.toml:9: unknown device type 'abacus' (neither declared in this "
                        "file nor in the catalogue of GPUs). Declare it as [device.abacus]"));
  EXPECT_THAT(error, HasSubstr("[link.intra_node] is missing"));
  EXPECT_THAT(error, HasSubstr("[link.inter_node] is missing"));
}

TEST(TomlFiles, TablesThatAreMissingAreNamedAsTheyAreWritten) {
  EXPECT_THAT(
      user_error(
          [] { parse_cluster("format = 1\n[link.intra_node]\nbandwidth = 1e9\n", "c.toml"); }),
      HasSubstr("c.toml:1: the file has no [[node]] (at least one is required). Add a [[node]]."));
}

TEST(TomlFiles, FormatComesFirstAndSyntaxIsLocated) {
  EXPECT_THAT(user_error([] { parse_plan("system = \"x\"\n", "p.toml"); }),
              HasSubstr("p.toml:1: the file's format is missing"));
  EXPECT_THAT(user_error([] { parse_plan("format = 2\n", "p.toml"); }),
              HasSubstr("p.toml:1: the file's format is not known"));
  EXPECT_THAT(user_error([] { parse_plan("model = \"x\"\nformat = 1\n", "p.toml"); }),
              HasSubstr("p.toml:2: format comes too late"));
  EXPECT_THAT(user_error([] { parse_profile("format = 1\nmodel = \n", "p.toml"); }),
              HasSubstr("p.toml:2: not TOML"));
}

TEST(HostList, ExpandsAsSlurmDoes) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(try_expand_host_list("n0"), Names{"n0"});
  EXPECT_EQ(try_expand_host_list("n[0-2]"), (Names{"n0", "n1", "n2"}));
  EXPECT_EQ(try_expand_host_list("n[0-1,7]"), (Names{"n0", "n1", "n7"}));
  EXPECT_EQ(try_expand_host_list("n[08-10]"), (Names{"n08", "n09", "n10"}));
  EXPECT_EQ(try_expand_host_list("r[0-1]n[3,5]x,y"),
            (Names{"r0n3x", "r0n5x", "r1n3x", "r1n5x", "y"}));
  for (const char* bad : {"", "n[", "n]", "n[]", "n[a]", "n[3-1]", "n[0-1", "n[[0]]", "a,", "n[-1]",
                          "n[0-99999999]", "n[0-]"}) {
    EXPECT_EQ(try_expand_host_list(bad), std::nullopt) << bad;
  }
}

const char kProfile[] = R"(format = 1
model = "tiny"
[[layer]]
name = "conv"
parameter_bytes = 6912
forward_flops = 1.5e6
[[layer]]
name = "pool"
[[layer]]
name = "add"
inputs = [1, 0]
shares = "conv"
[[measurement]]
device = "cpu"
batch = 8
forward = [0.1, 2e-3, 0]
backward = [0.2, 0.1, 0.3]
update = [1, 0, 0]
output_bytes = [80, 40, 8]
stash_bytes = [80, 0, 8]
)";

TEST(ProfileFile, ReadsAndRoundTrips) {
  const Profile p = parse_profile(kProfile, "p.toml");
  ASSERT_EQ(p.layers.size(), 3u);
  EXPECT_TRUE(p.layers[0].inputs.empty());
  EXPECT_EQ(p.layers[1].inputs, std::vector<int>{0});
  EXPECT_EQ(p.layers[2].inputs, (std::vector<int>{1, 0}));
  EXPECT_EQ(p.layers[2].shares, "conv");
  EXPECT_EQ(p.measurements[0].forward, (std::vector<double>{0.1, 2e-3, 0}));
  EXPECT_EQ(parse_profile(to_toml(p), "again"), p);
  Profile kept = p;
  kept.layers[1].kept_for_readers = true;
  kept.layers[1].gradients_apart = true;
  kept.measurements[0].scratch_bytes = {7, 0, 1};
  EXPECT_EQ(parse_profile(to_toml(kept), "again"), kept);
}

TEST(ProfileFile, ReportsEverythingAtOnce) {
  const std::string error = user_error([] {
    parse_profile(R"(format = 1
model = "tiny"
[[layer]]
name = "a"
inputs = [0]
[[layer]]
name = "a"
inputs = [0, 0]
shares = "nobody"
[[measurement]]
device = "cpu"
batch = 0
forward = [1]
backward = [-1, 2]
output_bytes = [1.5, 2]
)",
                  "p.toml");
  });
  for (const char* part :
       {"p.toml:5: layer 'a': input 0", "p.toml:7: layer 'a' is named twice",
        "p.toml:8: layer 'a': input 0 is given twice", "p.toml:9: layer 'a' shares the parameters",
        "p.toml:12: [[measurement]]: batch = 0", "p.toml:13: [[measurement]]: forward has 1 values",
        "p.toml:14: [[measurement]]: an item of backward = -1 (must not be negative)",
        "p.toml:15: [[measurement]]: an item of output_bytes is a number",
        "stash_bytes is missing"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
}

const char kPlan[] = R"(format = 1
system = "hetpipe"
model = "tiny"
minibatch = 8
in_flight = 3
[[virtual_worker]]
[[virtual_worker.stage]]
layers = [0, 2]
devices = ["n0:0"]
[[virtual_worker.stage]]
layers = [2, 3]
devices = ["n1:1", "n1:0"]
shares = [5, 3]
recompute = true
[[virtual_worker]]
minibatch = 16
[[virtual_worker.stage]]
layers = [0, 3]
devices = ["n0:1"]
[parameter_server]
nodes = ["server"]
clock_distance = 4
placement = "local"
pull = "newest"
scale = "mean"
)";

TEST(PlanFile, AHandWrittenPlanReads) {
  const Plan p = parse_plan(kPlan, "p.toml");
  EXPECT_EQ(p.micro_batches, 1);
  EXPECT_EQ(p.in_flight, 3);
  ASSERT_EQ(p.virtual_workers.size(), 2u);
  EXPECT_EQ(p.minibatch_of(VirtualWorkerId{0}), 8);
  EXPECT_EQ(p.minibatch_of(VirtualWorkerId{1}), 16);
  EXPECT_EQ(p.worker_ranks(), 4);
  EXPECT_EQ(p.server_ranks(), 1);
  EXPECT_EQ(p.server->pull.value_or(""), "newest");
  EXPECT_FALSE(p.predicted);
  EXPECT_EQ(parse_plan(to_toml(p), "again"), p);
}

TEST(PlanFile, PredictionsRoundTrip) {
  Plan p = parse_plan(kPlan, "p.toml");
  p.virtual_workers[0].stages[0].predicted = StagePrediction{0.1, 1.0 / 3, 1e-7, 123'456'789};
  p.predicted = Prediction{530.25, 0.0603, "0123", "abcd", 1.26, 0.5};
  p.model = "quote\" and \\ and \n";
  p.runtime = "megatron-deepspeed";
  p.precision = precision_choice_from("auto,titan-v=fp16");
  p.schedule = "continuous-1f1b";
  p.weights = "newest";
  p.sync = "asp";
  p.server->hosted = true;
  p.server->nodes = {"n0"};
  EXPECT_EQ(parse_plan(to_toml(p), "again"), p);
}

TEST(PlanFile, SaysThePrecisionOfPushesOnlyIfItIsNotTheUsualOne) {
  Plan p = parse_plan(kPlan, "p.toml");
  EXPECT_EQ(p.server->push_precision, "fp32");
  EXPECT_EQ(to_toml(p).find("push_precision"), std::string::npos);
  p.server->push_precision = "bf16";
  EXPECT_THAT(to_toml(p), HasSubstr("\npush_precision = \"bf16\""));
  EXPECT_EQ(parse_plan(to_toml(p), "again"), p);
}

TEST(PlanFile, RefusesAPrecisionThatNobodyPushesAndOneOfNoPushes) {
  const std::string plan = kPlan;
  const auto why = [](const std::string& text) {
    return user_error([&] { parse_plan(text, "p.toml"); });
  };
  EXPECT_THAT(
      why(plan + "push_precision = \"bf15\"\n"),
      HasSubstr("p.toml:26: [parameter_server]: unknown push_precision 'bf15' (did you mean "
                "'bf16'?). Use one of these: fp32, bf16."));
  const std::string summed = "format = 1\nsync = \"all-reduce\"\n" + plan.substr(plan.find('\n'));
  EXPECT_THAT(why(summed + "push_precision = \"bf16\"\n"),
              HasSubstr("[parameter_server]: push_precision = \"bf16\" and sync = \"all-reduce\" "
                        "(gradients are added up between the workers: nothing is pushed). Leave it "
                        "out, or set sync = \"wsp\"."));
  EXPECT_EQ(why(summed), "");
}

TEST(PlanFile, RoundsHaveTheirOwnDefaults) {
  const std::string head = "format = 1\nsync = \"outer\"\n";
  const std::string plan = kPlan;
  const std::string rest = plan.substr(plan.find('\n'));
  const std::string bare = head + rest.substr(0, rest.find("pull ="));  // neither pull nor scale
  Plan p = parse_plan(bare, "p.toml");
  EXPECT_EQ(p.server->pull.value_or(""), "bound");
  EXPECT_EQ(p.server->scale, "mean");
  EXPECT_EQ(p.server->round, 1);
  EXPECT_EQ(p.server->outer_rate, 0.7);
  EXPECT_EQ(p.server->clock_distance, 4);
  EXPECT_EQ(p.server->outer_momentum, 0.5);
  EXPECT_EQ(p.wave_length(), 3);
  p.server->round = 8;
  p.server->outer_rate = 0.5;
  p.server->outer_momentum = 0;
  EXPECT_EQ(p.wave_length(), 24);
  EXPECT_EQ(parse_plan(to_toml(p), "again"), p);
  EXPECT_EQ(parse_plan(head + rest, "p.toml").server->scale, "mean");
  const auto why = [](const std::string& text) {
    return user_error([&] { parse_plan(text, "p.toml"); });
  };
  EXPECT_THAT(why(plan + "round = 8\n"),
              HasSubstr("[parameter_server]: round = 8 and sync = \"wsp\" (it pushes every wave). "
                        "Leave it out, or set sync = \"outer\"."));
  EXPECT_THAT(why(bare + "outer_momentum = 1\n"), HasSubstr("outer_momentum"));
  EXPECT_THAT(why(bare + "round = 0\n"), HasSubstr("round"));
}

TEST(PlanFile, TheServersOptimizerTakesTheMean) {
  const std::string plan = kPlan;
  const std::string rest = plan.substr(plan.find('\n'));
  const std::string bare =
      "format = 1\nsync = \"server-step\"\n" + rest.substr(0, rest.find("pull ="));
  const Plan p = parse_plan(bare, "p.toml");
  EXPECT_EQ(p.server->scale, "mean");
  EXPECT_EQ(parse_plan(to_toml(p), "again"), p);
  EXPECT_THAT(user_error([&] { parse_plan(bare + "scale = \"sum\"\n", "p.toml"); }),
              HasSubstr("[parameter_server]: scale = \"sum\" and sync = \"server-step\" (the "
                        "servers' optimizer takes the mean of the gradients). Leave it out."));
}

TEST(PlanFile, ReportsEverythingAtOnce) {
  const std::string error = user_error([] {
    parse_plan(R"(format = 1
system = "hetpipe"
modle = "tiny"
minibatch = 0
[[virtual_worker]]
[[virtual_worker.stage]]
layers = [0, 2, 3]
devices = ["n0"]
[parameter_server]
nodes = ["n0"]
pull = "bond"
)",
               "p.toml");
  });
  for (const char* part :
       {"model is missing", "p.toml:3: the file: unknown key 'modle'",
        "p.toml:4: the file: minibatch = 0", "p.toml:7: layers needs two numbers",
        "p.toml:8: 'n0' is not a device",
        "p.toml:11: [parameter_server]: unknown pull 'bond' (did you mean 'bound'?)"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
}

TEST(PlanFile, ChecksTheCutWithLines) {
  const std::string error = user_error([] {
    parse_plan(R"(format = 1
system = "hetpipe"
model = "tiny"
minibatch = 9
micro_batches = 2
[[virtual_worker]]
[[virtual_worker.stage]]
layers = [0, 2]
devices = ["n0:0"]
[[virtual_worker.stage]]
layers = [3, 3]
devices = ["n0:0"]
shares = [3]
[[virtual_worker]]
[[virtual_worker.stage]]
layers = [0, 2]
devices = []
)",
               "p.toml");
  });
  for (const char* part :
       {"p.toml:10: virtual worker 0, stage 1: layers start at 3",
        "p.toml:10: virtual worker 0, stage 1: layers [3, 3] is an empty range",
        "device n0:0 is used twice", "shares (1, adding up to 3)",
        "p.toml:15: virtual worker 1, stage 0: layers end at 2 (the model has 3)",
        "minibatch = 9 does not divide into micro_batches = 2", "no device"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
}

TEST(CheckPlan, AgainstClusterAndModel) {
  const Plan p = parse_plan(kPlan, "p.toml");
  const Cluster c = parse_cluster(kCluster, "c.toml");
  check_plan(p, "p.toml", &c, 3);
  EXPECT_THAT(user_error([&] { check_plan(p, "p.toml", &c, 5); }), HasSubstr("the model has 5"));
  Plan wrong = p;
  wrong.virtual_workers[0].stages[0].devices = {{"n0", 9}};
  wrong.server->nodes = {"sever", "sever"};
  wrong.server->hosted = true;
  const std::string error = user_error([&] { check_plan(wrong, "p.toml", &c, 3); });
  EXPECT_THAT(error, HasSubstr("unknown device 'n0:9'"));
  EXPECT_THAT(error, HasSubstr("unknown node 'sever' (did you mean 'server'?)"));
  EXPECT_THAT(error, HasSubstr("is named twice"));
  EXPECT_THAT(error, HasSubstr("hosted = true and no worker"));
}

TEST(DeviceName, PrintsAndParses) {
  EXPECT_EQ(try_parse_device("n0:3"), (DeviceName{"n0", 3}));
  EXPECT_EQ(to_string(DeviceName{"n0", 3}), "n0:3");
  for (const char* bad : {"", "n0", "n0:", ":1", "n0:-1", "n0:x", "n0:1x"}) {
    EXPECT_EQ(try_parse_device(bad), std::nullopt) << bad;
  }
}

// The lines around one that is under test.
}  // namespace files_test
}  // namespace hetpipe
