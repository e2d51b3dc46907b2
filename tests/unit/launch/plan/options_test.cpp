// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/text.h"

namespace hetpipe {
namespace plan_options_test {

using testing::HasSubstr;

std::vector<Problem> problems_of(const PlanningOptions& options) {
  Problems problems;
  check_planning_options(options, problems);
  return problems.list();
}

PlanningOptions under(const std::string& system) {
  PlanningOptions options;
  options.system = system;
  return options;
}

TEST(PlanningOptions, EverySystemStandsByItself) {
  EXPECT_TRUE(problems_of({}).empty());
  for (const std::string& system : system_names()) {
    EXPECT_TRUE(problems_of(under(system)).empty()) << system;
  }
}

TEST(PlanningOptions, PlansAreForTheTimeToAnAccuracy) {
  EXPECT_EQ(request_of({}, {}, {}).objective, PlanObjective::time_to_accuracy);
  EXPECT_EQ(request_of({}, {}, {}).critical_batch, kCriticalBatch);
  PlanningOptions options;
  options.objective = "throughput";
  options.critical_batch = 1000;
  EXPECT_EQ(request_of(options, {}, {}).objective, PlanObjective::throughput);
  EXPECT_EQ(request_of(options, {}, {}).critical_batch, 1000);
}

TEST(PlanningOptions, PlannersChooseTheSyncOfWhatNobodyNamed) {
  EXPECT_TRUE(request_of({}, {}, {}).chooses_sync);
  EXPECT_FALSE(request_of(under("hetpipe"), {}, {}).chooses_sync);
  PlanningOptions options;
  options.scale = "sum";  // of what each virtual worker's optimizer did
  EXPECT_FALSE(request_of(options, {}, {}).chooses_sync);
}

TEST(PlanningOptions, ServersForASystemThatAllReduces) {
  PlanningOptions options = under("dapple");
  options.clock_distance = 1;
  options.pull = "newest";
  options.scale = "mean";
  options.servers = {"n0"};
  options.placement = "local";
  options.push_precision = "bf16";
  const auto problems = problems_of(options);
  ASSERT_EQ(problems.size(), 6u);
  EXPECT_EQ(problems[0].where, "--clock-distance");
  EXPECT_THAT(problems[0].text, HasSubstr("--system dapple"));
  EXPECT_THAT(problems[0].text, HasSubstr("Leave it out, or choose"));
  EXPECT_THAT(problems[0].text, HasSubstr("hetpipe, ssp, asp"));
  options = {};
  options.sync = "all-reduce";
  options.clock_distance = 1;
  ASSERT_EQ(problems_of(options).size(), 1u);
  EXPECT_THAT(problems_of(options)[0].text, HasSubstr("--sync all-reduce"));
}

TEST(PlanningOptions, RoundsOfAnotherSync) {
  PlanningOptions options;
  options.round = 8;
  options.outer_rate = 0.5;
  options.outer_momentum = 0.5;
  ASSERT_EQ(problems_of(options).size(), 3u);
  EXPECT_EQ(problems_of(options)[0].where, "--round");
  EXPECT_THAT(problems_of(options)[0].text, HasSubstr("choose --sync outer"));
  options.sync = "outer";
  EXPECT_TRUE(problems_of(options).empty());
  EXPECT_EQ(request_of(options, {}, {}).round, 8);
  // With a finished plan.
  Plan plan;
  plan.server.emplace();
  try {
    override_plan(options, {}, plan);
    FAIL() << "rounds of a plan without any";
  } catch (const UserError& error) {
    ASSERT_EQ(error.problems().size(), 3u);
    EXPECT_EQ(error.problems()[0].where, "--round");
    EXPECT_THAT(error.problems()[0].text, HasSubstr("has no effect (the plan's sync is 'wsp')"));
  }
  plan.sync = "outer";
  override_plan(options, {}, plan);
  EXPECT_EQ(plan.server->round, 8);
  EXPECT_EQ(plan.server->outer_rate, 0.5);
}

// A profile that was measured in fp32, for a plan of another precision: hetpipe simulate, train.
TEST(PlanningOptions, TimesAreThoseOfThePlansPrecision) {
  const Cluster cluster = parse_cluster(R"(format = 1
[device.card]
memory = 1_000_000_000
peak_flops = 10e12
peak_flops_fp16 = 100e12
memory_bandwidth = 1e15
[[node]]
name = "n0"
devices = ["card"]
[link.intra_node]
bandwidth = 1e9
)",
                                        "c.toml");
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / format("hetpipe-options-%d.toml", ::getpid());
  write_file(file, R"(format = 1
model = "m"
[[layer]]
name = "a"
forward_flops = 1e9
[[measurement]]
device = "card"
precision = "fp32"
batch = 1
forward = [1.0]
backward = [2.0]
output_bytes = [8]
stash_bytes = [8]
)");
  PlanningOptions options;
  options.profile = file.string();
  const auto forward = [&](const Plan* plan) {
    return load_profile_of(options, cluster, plan).measurements.at(0).forward.at(0);
  };
  Plan plan;
  EXPECT_EQ(forward(nullptr), 1.0);
  EXPECT_EQ(forward(&plan), 1.0);
  plan.precision = Precision::bf16;
  EXPECT_NEAR(forward(&plan), 0.85 * 10 / (0.7 * 100), 1e-12);  // by the sustained rates
  options.precision = "fp32";
  EXPECT_EQ(forward(&plan), 1.0);
  std::filesystem::remove(file);
}

TEST(PlanningOptions, PrecisionOfKindsThatTheClusterHas) {
  Cluster cluster;
  for (const char* kind : {"a100", "titan-v"}) cluster.kinds.emplace_back().name = kind;
  PlanningOptions options;
  EXPECT_EQ(precision_of(options, cluster), std::nullopt);
  EXPECT_EQ(request_of(options, cluster, {}).precision, PrecisionChoice(Precision::fp32));
  Profile measured;
  measured.measurements.push_back({.device = "a100", .precision = Precision::bf16});
  EXPECT_EQ(request_of(options, cluster, measured).precision, precision_choice_from("a100=bf16"));
  options.precision = "bf16,titan-v=fp16";
  EXPECT_EQ(precision_of(options, cluster)->of("titan-v"), Precision::fp16);
  EXPECT_EQ(request_of(options, cluster, {}).precision.of("a100"), Precision::bf16);
  const auto error_of = [&](const std::string& text, const Cluster& of) -> std::string {
    options.precision = text;
    try {
      precision_of(options, of);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(error_of("titan-x=fp16", cluster),
              HasSubstr("--precision: unknown device type 'titan-x' (did you mean 'titan-v'?). "
                        "Name one of the cluster's: a100, titan-v."));
  EXPECT_THAT(error_of("a100=fp16", {}), HasSubstr("Give --cluster FILE"));
  EXPECT_EQ(error_of("fp16", {}), "");
}

TEST(PlanningOptions, InFlightUnderAScheduleThatDrains) {
  PlanningOptions options = under("gpipe");
  options.in_flight = 4;
  const auto problems = problems_of(options);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].where, "--in-flight");
  EXPECT_THAT(problems[0].text, HasSubstr("--system gpipe"));
  EXPECT_THAT(problems[0].text, HasSubstr("--micro-batches"));
  options.system = "xpipe";
  EXPECT_TRUE(problems_of(options).empty());
}

TEST(PlanningOptions, AnAllocationPolicyForAPipelineThatDrains) {
  PlanningOptions options = under("dapple");
  options.policy = "ed";
  options.in_flight = 2;  // said together with the other
  const auto problems = problems_of(options);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].where, "--policy");
  EXPECT_THAT(problems[0].text, HasSubstr("ed cannot be combined with --system dapple"));
  options.in_flight.reset();
  options.policy = "search";
  EXPECT_TRUE(problems_of(options).empty());
}

TEST(PlanningOptions, BoundsForWorkersThatAreNeverHeldBack) {
  PlanningOptions options = under("asp");
  options.clock_distance = 3;
  const auto problems = problems_of(options);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].text, HasSubstr("choose --sync wsp"));
}

TEST(PlanningOptions, UnknownWordsAndPartsThatDoNotGoTogether) {
  PlanningOptions options = under("dappel");
  EXPECT_THAT(problems_of(options)[0].text, HasSubstr("did you mean 'dapple'?"));
  options = {};
  options.schedule = "gpipe";  // hetpipe's weights are stashed
  ASSERT_EQ(problems_of(options).size(), 1u);
  EXPECT_THAT(problems_of(options)[0].text, HasSubstr("a flush leaves one version"));
  options.weights = "one-version";
  EXPECT_TRUE(problems_of(options).empty());
}

}  // namespace plan_options_test
}  // namespace hetpipe
