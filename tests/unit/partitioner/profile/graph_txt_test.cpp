// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/graph_txt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "../cases.h"
#include "../shared_profiles.h"
#include "partitioner/planners/planner.h"

namespace hetpipe {
namespace graph_txt_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kNumbers =
    " -- forward_compute_time=1.5, backward_compute_time=3.0, activation_size=400.0, "
    "parameter_size=8.000\n";

std::string node(int number, const std::string& what) {
  return "node" + std::to_string(number) + " -- " + what + kNumbers;
}

// A residual block written out of order, as the profiler does; an LSTM's list of outputs; a state
// that nobody takes.
std::string block() {
  return node(3, "BatchNorm2d(64)") + node(1, "Input") + node(2, "Conv2d(3, 64)") +
         "node4 -- LSTM(8, 8) -- forward_compute_time=0.5, backward_compute_time=0, "
         "activation_size=[256.0; 32.0; 32.0], parameter_size=100 -- stage_id=2\n" +
         node(6, "Add") +
         "node5 -- __getitem__(1) -- forward_compute_time=0.000, backward_compute_time=0.000, "
         "activation_size=32.0, parameter_size=0.000\n"
         "\tnode2 -- node3\n\tnode1 -- node2\n\tnode3 -- node4\n\tnode4 -- node5\n"
         "\tnode4 -- node6\n\tnode2 -- node6\r\n";
}

const ProfileOrigin kV100{"v100", 2};

std::string refusal(const std::string& text, const ProfileOrigin& origin = kV100) {
  return test::user_error([&] { parse_graph_txt(text, "g.txt", origin); });
}

TEST(GraphTxt, NodesInOrderOfExecutionWithTheirEdges) {
  const Profile p = parse_graph_txt(block(), "models/tiny.txt", kV100).profile;
  EXPECT_EQ(p.model, "tiny");
  ASSERT_EQ(p.layers.size(), 5u);  // without the unread item
  std::vector<std::string> names;
  std::vector<std::vector<int>> inputs;
  for (const ProfileLayer& layer : p.layers) {
    names.push_back(layer.name);
    inputs.push_back(layer.inputs);
  }
  EXPECT_THAT(names, ElementsAre("node1 Input", "node2 Conv2d", "node3 BatchNorm2d", "node4 LSTM",
                                 "node6 Add"));
  EXPECT_EQ(inputs, (std::vector<std::vector<int>>{{}, {0}, {1}, {2}, {1, 3}}));
  ASSERT_EQ(p.measurements.size(), 1u);
  const Measurement& m = p.measurements[0];
  EXPECT_EQ(m.device, "v100");
  EXPECT_EQ(m.batch, 2);
  EXPECT_THAT(m.forward, ElementsAre(0, 0.0015, 0.0015, 0.0005, 0.0015));  // s; reading takes none
  EXPECT_THAT(m.output_bytes, ElementsAre(400, 400, 400, 320, 400));
  EXPECT_EQ(m.stash_bytes, m.output_bytes);
  EXPECT_EQ(p.layers[3].parameter_bytes, 100);
  EXPECT_EQ(parse_profile(to_toml(p), "again"), p);
}

TEST(GraphTxt, AnAuxiliaryHeadIsAnOutput) {
  const Profile p = parse_graph_txt(node(1, "Input") + node(2, "Linear") + node(3, "Linear") +
                                        "\tnode1 -- node2\n\tnode1 -- node3\n",
                                    "g.txt", kV100)
                        .profile;
  EXPECT_TRUE(p.layers[1].output);
  EXPECT_FALSE(p.layers[2].output);  // the last is one anyway
  EXPECT_EQ(parse_profile(to_toml(p), "again"), p);
}

TEST(GraphTxt, RecognisedByItsFirstLine) {
  EXPECT_TRUE(looks_like_graph_txt(block()));
  EXPECT_TRUE(looks_like_graph_txt("\n\tnode1 -- node2\n"));
  EXPECT_TRUE(looks_like_graph_txt("node17"));  // cut off
  EXPECT_FALSE(looks_like_graph_txt("format = 1\n"));
  EXPECT_FALSE(looks_like_graph_txt("node1 = 1\n"));
  EXPECT_FALSE(looks_like_graph_txt("nodes"));
  EXPECT_FALSE(looks_like_graph_txt(""));
}

TEST(GraphTxt, WhatTheFormatLeavesOutHasToBeGiven) {
  const std::string nothing = refusal(node(1, "Linear(in_features=8, out_features=50)"), {});
  EXPECT_THAT(nothing, HasSubstr("--profile-device v100"));
  EXPECT_THAT(nothing, HasSubstr("--profile-batch 32"));
  EXPECT_THAT(refusal(node(1, "Input"), {"v100", 0}), HasSubstr("batch 0 (must be between 1"));
  // From the name; from a linear layer behind convolutions: 400 bytes are 2 samples of 50 floats;
  // from an LSTM's state: 32 bytes are one sample of 8.
  const auto read = [](const std::string& text, const std::string& file) {
    return parse_graph_txt(text, file, {"v100", {}});
  };
  EXPECT_EQ(read(node(1, "ReLU"), "vgg-pbs-32.txt").profile.measurements[0].batch, 32);
  EXPECT_EQ(read(node(1, "ReLU"), "vgg-pbs-32.txt").profile.model, "vgg");
  const GraphTxt images =
      read(node(1, "Conv2d(3, 64)") + node(2, "Linear(in_features=8, out_features=50)") +
               "\tnode1 -- node2\n",
           "vgg16/graph.txt");
  EXPECT_EQ(images.profile.measurements[0].batch, 2);
  EXPECT_EQ(images.profile.model, "vgg16");
  EXPECT_THAT(images.note, HasSubstr("batch 2, from the size of node2 Linear"));
  EXPECT_EQ(read(block(), "g.txt").profile.measurements[0].batch, 1);
}

TEST(GraphTxt, AllProblemsAtOnceWithTheirLines) {
  const std::string message = refusal(
      node(1, "Input") +
      "node2 -- Conv2d(3, 64) -- forward_compute_time=-1.5, "
      "backward_compute_time=x, activation_size=[1; nan], parameter_size=1e30\n" +
      node(1, "Input") + "node3 -- ReLU -- forward_compute_time=1.5, backw\n" + "node4 -- ReL\n" +
      "\tnode1 -- node2\n\tnode1 -- node2\n\tnode2 -- node9\n\tnode2 --\n\tnode3 -- node4\n");
  EXPECT_THAT(message,
              HasSubstr("g.txt:2: node2: forward_compute_time = -1.5 (must be between 0 and"));
  EXPECT_THAT(message, HasSubstr("g.txt:2: node2: backward_compute_time is not a number"));
  EXPECT_THAT(message, HasSubstr("g.txt:2: node2: activation_size is not a number"));
  EXPECT_THAT(message, HasSubstr("g.txt:2: node2: parameter_size = 1e+30"));
  EXPECT_THAT(message, HasSubstr("g.txt:3: node1 is given twice (first in line 1;"));
  EXPECT_THAT(message, HasSubstr("g.txt:4: node3: backward_compute_time is missing"));
  EXPECT_THAT(message, HasSubstr("g.txt:5: 'node4 -- ReL' is not a node"));
  EXPECT_THAT(message, HasSubstr("g.txt:7: edge node1 -- node2 is given twice"));
  EXPECT_THAT(message, HasSubstr("g.txt:8: edge node2 -- node9: no node9 in the file"));
  EXPECT_THAT(message, HasSubstr("g.txt:9: 'node2 --' is not an edge"));
  EXPECT_THAT(message, Not(HasSubstr("g.txt:10")));  // joins two nodes whose own lines are reported
}

TEST(GraphTxt, CyclesAndIslandsAreRefused) {
  EXPECT_THAT(refusal(node(1, "a") + node(2, "b") + node(3, "c") + node(4, "d") +
                      "\tnode1 -- node2\n\tnode2 -- node3\n\tnode3 -- node2\n\tnode3 -- node4\n"),
              HasSubstr("the graph has a cycle: node2 -> node3 -> node2"));
  EXPECT_THAT(refusal(node(1, "a") + "\tnode1 -- node1\n"),
              HasSubstr("g.txt:2: the graph has a cycle: node1 -> node1"));
  EXPECT_THAT(refusal(node(1, "a") + node(2, "b") + node(3, "c") + "\tnode1 -- node3\n"),
              HasSubstr("g.txt:2: node2: no chain of edges joins it to node1"));
  EXPECT_THAT(refusal("\n"), HasSubstr("no node in the file"));
}

// What feeds the network takes no time on a GPU, however many such nodes there are.
TEST(GraphTxt, LoadingDataTakesNoTime) {
  const GraphTxt read =
      parse_graph_txt(node(1, "Input0") + node(2, "Input1") + node(3, "InputNorm(8)") +
                          "\tnode1 -- node3\n\tnode2 -- node3\n",
                      "g.txt", kV100);
  EXPECT_THAT(read.profile.measurements[0].forward, ElementsAre(0, 0, 0.0015));
  EXPECT_THAT(read.profile.measurements[0].backward, ElementsAre(0, 0, 0.003));
  EXPECT_THAT(
      read.note,
      HasSubstr("g.txt: 9.0 ms of loading data (node1, node2, 'Input'), 67 % of all times"));
  EXPECT_THAT(refusal(node(1, "Input")), HasSubstr("g.txt: no node takes any time"));
}

// A profile file could not hold such a name.
TEST(GraphTxt, SomethingHasToTakeTime) {
  const std::string node =
      " -- x -- forward_compute_time=0.0, backward_compute_time=0.0, "
      "activation_size=4.0, parameter_size=0.0\n";
  EXPECT_THAT(test::user_error([&] {
                parse_graph_txt("node1" + node + "node2" + node + "\tnode1 -- node2\n", "g.txt",
                                {"v100", 1});
              }),
              HasSubstr("g.txt: no node takes any time"));
}

TEST(GraphTxt, BytesThatAreNoTextDoNotReachNames) {
  const Profile p = parse_graph_txt(node(1,
                                         "Li\x7f\x01\xfe"
                                         "ar(8)"),
                                    "g.txt", kV100)
                        .profile;
  EXPECT_EQ(p.layers[0].name, "node1 Li???ar");
  EXPECT_EQ(parse_profile(to_toml(p), "again"), p);
}

TEST(GraphTxt, LoadProfileTakesBothFormats) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("graph-txt-test-" + std::to_string(::getpid()) + ".txt");
  std::ofstream(path) << block();
  const LoadedProfile read = read_profile(path, {"v100", {}});
  EXPECT_EQ(read.profile.layers.size(), 5u);
  EXPECT_THAT(read.note, HasSubstr("batch 1"));
  EXPECT_THAT(test::user_error([&] { load_profile(path); }), HasSubstr("--profile-device"));
  std::ofstream(path) << to_toml(read.profile);
  EXPECT_EQ(load_profile(path), read.profile);
  EXPECT_THAT(test::user_error([&] {
                load_profile(path, {"v100", {}});
              }),
              HasSubstr("names its devices and batches itself"));
  std::ofstream(path) << "\n \n";
  EXPECT_THAT(test::user_error([&] {
                load_profile(path, {"v100", {}});
              }),
              HasSubstr(".txt: the file is empty (a profile has layers)."));
  std::filesystem::remove(path);
}

// The published profiles: layers, parameters, seconds of one forward and backward, batch.
// Parameters of torchvision's models are exact (fp32); AlexNet 61,100,840, VGG-16 138,357,544.
// Seconds as sums of the files' columns without the nodes called Input: VGG-16's 0.672535 s is the
// number of PipeDream's optimizer, and of AlexNet's 0.721223 s loading data takes 0.635902.
struct Published {
  const char* file;
  int layers;
  double parameters;
  double seconds;
  int batch;
};

TEST(GraphTxt, PublishedProfiles) {
  const auto folder =
      std::filesystem::path(HETPIPE_SOURCE_DIR).parent_path() / "shared/data/profiles";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no published profiles at " << folder;
  const Published published[] = {
      {"pipedream/vgg16.txt", 41, 138357544, 0.672535, 128},
      {"pipedream/alexnet.txt", 23, 61100840, 0.085321, 256},
      {"pipedream/resnet50.txt", 177, 25557032, 0.443419, 128},
      {"pipedream/resnet101.txt", 347, 44549160, 0.411092, 64},
      {"pipedream/gnmt.txt", 48 - 8, 193765952, 0.089416, 32},
      {"dapple/gnmt-16-pbs-64.txt", 96 - 16, 290747088, 0.248916, 64},
      {"dapple/vgg-19-pbs-32.txt", 26, 137011755.5, 0.14421, 32},
      {"dapple/bert-48-pbs-2.txt", 53, 637451264, 0.343757, 2},
      {"dapple/xlnet-36-pbs-1.txt", 43, 500750000, 0.30071, 1},
  };
  for (const Published& expected : published) {
    SCOPED_TRACE(expected.file);
    const Profile p = load_profile(folder / expected.file, {"v100", {}});
    EXPECT_EQ(static_cast<int>(p.layers.size()), expected.layers);
    double parameters = 0;
    for (const ProfileLayer& layer : p.layers) {
      parameters += static_cast<double>(layer.parameter_bytes) / 4;
    }
    EXPECT_DOUBLE_EQ(parameters, expected.parameters);
    const Measurement& m = p.measurements.at(0);
    EXPECT_NEAR(std::accumulate(m.forward.begin(), m.forward.end(), 0.0) +
                    std::accumulate(m.backward.begin(), m.backward.end(), 0.0),
                expected.seconds, 1e-9);
    EXPECT_EQ(m.batch, expected.batch);
    EXPECT_EQ(parse_profile(to_toml(p), "again"), p);
  }
}

// With the time of loading data in the pipeline, its first stage would set the pace: 256 samples in
// 0.64 s are 403 samples/s for each.
TEST(GraphTxt, AlexNetsPaceIsThatOfItsLayers) {
  const auto file = test::shared_profile("pipedream", "alexnet.txt");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no published profile at " << file;
  PlanRequest request;
  request.cluster = test::cluster_of({{"v100", "v100", "v100", "v100"}}, 16'000'000'000);
  request.profile = load_profile(file, {"v100", {}});
  request.minibatch = 256;
  const Plan plan = make_plan(request);
  std::printf("AlexNet on four V100: %.0f samples/s\n", plan.predicted->throughput);
  EXPECT_GT(plan.predicted->throughput, 5000);
}

}  // namespace graph_txt_test
}  // namespace hetpipe
