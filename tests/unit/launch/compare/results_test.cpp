// SPDX-License-Identifier: Apache-2.0
#include "launch/compare/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/compare/report.h"

namespace hetpipe {
namespace results_test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr char kResult[] = R"({"exit": "target-accuracy", "plan_hash": "0123", "samples": 500,
 "seconds": 2.5, "throughput": 200, "test_accuracy": 0.9, "time_to_target": 2.25,
 "staleness": {"min": 0, "max": 3},
 "evaluations": [{"seconds": 1, "test_accuracy": 0.5}, {"seconds": 2.25, "test_accuracy": 0.9}],
 "ranks": [
  {"virtual_worker": 0, "stage": 0, "replica": 0, "device": "a:0", "peak_memory": 300,
   "bytes": {"forward": 10, "backward": 0, "pushed": 4, "pulled": 5, "summed": 0, "evaluation": 1000},
   "messages": {"forward": 3, "backward": 0, "pushes": 2, "pulls": 1, "summed": 0}},
  {"virtual_worker": 0, "stage": 1, "replica": 0, "device": "b:0", "peak_memory": 200,
   "bytes": {"forward": 0, "backward": 20, "pushed": 4, "pulled": 5, "summed": 0, "evaluation": 0},
   "messages": {"forward": 0, "backward": 3, "pushes": 2, "pulls": 1, "summed": 0}}]})";

// b:0 is the smaller device: it is fuller with less.
const Cluster& two_kinds() {
  static const Cluster cluster = parse_cluster(
      "format = 1\n[device.big]\nmemory = 1000\n[device.small]\nmemory = 250\n"
      "[[node]]\nname = \"a\"\ndevices = [\"big\"]\n[[node]]\nname = \"b\"\n"
      "devices = [\"small\"]\n[link.intra_node]\nbandwidth = 1e9\n[link.inter_node]\n"
      "bandwidth = 1e9\n",
      "cluster.toml");
  return cluster;
}

std::optional<RunResult> read(const std::string& text) {
  static const Plan plan = parse_plan(
      "format = 1\nsystem = \"hetpipe\"\nmodel = \"mlp\"\nminibatch = 8\n[[virtual_worker]]\n"
      "[[virtual_worker.stage]]\nlayers = [0, 3]\ndevices = [\"a:0\"]\n"
      "[[virtual_worker.stage]]\nlayers = [3, 7]\ndevices = [\"b:0\"]\n"
      "[parameter_server]\nnodes = [\"b\"]\n",
      "plan.toml");
  const fs::path file = fs::temp_directory_path() / format("hetpipe-result-%d.json", ::getpid());
  write_file(file, text);
  auto result = try_read_result(file, 3, plan, two_kinds());
  fs::remove(file);
  return result;
}

std::string with(std::string text, const std::string& what, const std::string& instead) {
  const std::size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), instead);
}

TEST(CompareResults, ReadsWhatARunLeft) {
  const auto run = read(kResult);
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->seed, 3);
  EXPECT_TRUE(run->complete());
  EXPECT_EQ(run->throughput, 200);
  EXPECT_EQ(run->time_to_target, 2.25);
  EXPECT_EQ(run->staleness_max, 3);
  EXPECT_EQ(run->messages, 12);
  EXPECT_EQ(run->bytes, 48);  // evaluation is apart
  EXPECT_EQ(run->fullest, "b:0");
  EXPECT_EQ(run->peak_memory, 200);
  EXPECT_DOUBLE_EQ(run->memory_share, 0.8);
  ASSERT_EQ(run->curve.size(), 2u);
  EXPECT_EQ(run->curve[1].accuracy, 0.9);
}

TEST(CompareResults, WhatIsNoResultIsNone) {
  EXPECT_FALSE(read("{\"exit\": \"finished\"").has_value());
  EXPECT_FALSE(read("{}").has_value());
  EXPECT_FALSE(read(with(kResult, "\"throughput\": 200", "\"throughput\": \"fast\"")).has_value());
  EXPECT_FALSE(read(with(kResult, "target-accuracy", "stopped"))->complete());
  EXPECT_EQ(read(with(kResult, "2.25", "null"))->time_to_target, std::nullopt);
  EXPECT_FALSE(try_read_result("/nowhere/result.json", 1, {}, two_kinds()).has_value());
}

// Two runs of 500 and 250 samples, the second without reaching the target.
Entry two_runs() {
  Entry entry{.name = "one",
              .system = "hetpipe",
              .why_not = {},
              .runs = {},
              .failures = {},
              .minibatches = {32, 32},
              .learning_rate = 0.025};
  entry.runs.push_back(*read(kResult));
  RunResult& second = entry.runs.emplace_back(entry.runs.front());
  second.seed = 4;
  second.samples = 250;
  second.throughput = 100;
  second.test_accuracy = 0.7;
  second.time_to_target.reset();
  second.memory_share = 0.9;
  second.curve = {{3, 0.7}};
  return entry;
}

TEST(CompareResults, AreSummedUpOverSeeds) {
  const Entry entry = two_runs();
  EXPECT_EQ(throughput_of(entry).mean, 150);
  EXPECT_EQ(throughput_of(entry).least, 100);
  EXPECT_EQ(throughput_of(entry).most, 200);
  EXPECT_DOUBLE_EQ(accuracy_of(entry)->mean, 0.8);
  EXPECT_EQ(time_to_target_of(entry)->mean, 2.25);
  EXPECT_EQ(fullest_of(entry).seed, 4);
  EXPECT_DOUBLE_EQ(messages_per_epoch(entry, 1000), (24 + 48) / 2.0);
  EXPECT_DOUBLE_EQ(bytes_per_epoch(entry, 1000), (96 + 192) / 2.0);
  const std::vector<CurvePoint> mean = mean_curve(entry);
  ASSERT_EQ(mean.size(), 1u);  // the second run has no more
  EXPECT_DOUBLE_EQ(mean[0].seconds, 2);
  EXPECT_DOUBLE_EQ(mean[0].accuracy, 0.6);
}

Comparison comparison() {
  Comparison c;
  c.cluster = "c.toml";
  c.model = "mlp";
  c.data = "a|b & <c>";
  c.dataset_size = 1000;
  c.epochs = 1;
  c.target_accuracy = 0.9;
  c.seeds = {3, 4};
  c.command = "hetpipe compare";
  c.version = "hetpipe 0";
  c.entries.push_back(two_runs());
  c.entries.push_back({.name = "two",
                       .system = "gpipe",
                       .why_not = "plan: no such thing. Do this.",
                       .runs = {},
                       .failures = {}});
  c.entries.push_back({.name = "three",
                       .system = "ssp",
                       .why_not = {},
                       .runs = {},
                       .failures = {{3, 4, "the loss is not a finite number"}},
                       .not_run = 1,
                       .minibatches = {48, 16}});
  return c;
}

TEST(CompareReport, SaysWhatIsThereAndWhyTheRestIsNot) {
  for (const std::string& text :
       {comparison_text(comparison()), comparison_markdown(comparison())}) {
    EXPECT_THAT(text, HasSubstr("80.00 % (70.00..90.00)"));
    EXPECT_THAT(text, HasSubstr("2 x 32"));
    EXPECT_THAT(text, HasSubstr("0.025"));
    EXPECT_THAT(text, HasSubstr("48 + 16"));
    EXPECT_THAT(text, HasSubstr("2.2 s (1 of 2)"));
    EXPECT_THAT(text, HasSubstr("two was not trained: plan: no such thing. Do this."));
    EXPECT_THAT(text, HasSubstr("three, seed 3 ended with exit code 4: the loss is not"));
    EXPECT_THAT(text, HasSubstr("three: 1 runs were not started"));
  }
  const Json json = Json::parse(comparison_json(comparison()));
  EXPECT_EQ(json.at("entries").size(), 3u);
  EXPECT_EQ(json.at("entries").at(0).at("throughput").at("mean"), 150);
  EXPECT_EQ(json.at("entries").at(0).at("runs").at(1).at("seed"), 4);
  EXPECT_EQ(json.at("entries").at(0).at("minibatches"), (std::vector<int>{32, 32}));
  EXPECT_EQ(json.at("entries").at(0).at("learning_rate"), 0.025);
  EXPECT_EQ(json.at("entries").at(1).at("why_not"), "plan: no such thing. Do this.");
  EXPECT_FALSE(json.at("entries").at(1).contains("throughput"));
  EXPECT_EQ(json.at("entries").at(2).at("failures").at(0).at("exit_code"), 4);
}

int times(const std::string& text, const std::string& what) {
  int count = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(CompareReport, DrawsALinePerEntry) {
  Comparison c = comparison();
  const std::string svg = accuracy_svg(c);
  EXPECT_EQ(times(svg, "<polyline"), 3);  // two seeds and their mean
  EXPECT_THAT(svg, HasSubstr("target 90 %"));
  EXPECT_THAT(svg, HasSubstr("a|b &amp; &lt;c&gt;"));
  EXPECT_THAT(svg, HasSubstr("two: not trained"));
  EXPECT_THAT(svg, HasSubstr("test accuracy in %"));
  EXPECT_THAT(svg, HasSubstr("training time in s"));
  EXPECT_EQ(times(svg, "<g"), times(svg, "</g>"));
  // The first seed goes from (1 s, 50 %) to (2.25 s, 90 %): right and up.
  c.entries.resize(1);
  c.entries[0].runs.resize(1);
  const std::string one = accuracy_svg(c);
  const std::size_t at = one.find("points=\"") + 8;
  double x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  ASSERT_EQ(std::sscanf(one.c_str() + at, "%lf,%lf %lf,%lf", &x0, &y0, &x1, &y1), 4);
  EXPECT_LT(x0, x1);
  EXPECT_GT(y0, y1);
  // Nothing to draw is no reason to fail.
  c.entries[0].runs.clear();
  EXPECT_EQ(times(accuracy_svg(c), "<polyline"), 0);
  EXPECT_THAT(accuracy_svg(c), Not(HasSubstr("nan")));
}

}  // namespace results_test
}  // namespace hetpipe
