// SPDX-License-Identifier: Apache-2.0
#include "launch/simulate/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/json.h"
#include "partitioner/simulator/chrome_trace.h"
#include "partitioner/simulator/simulation_json.h"
#include "tests/unit/partitioner/simulator/pictures.h"

namespace hetpipe {
namespace simulate_text_test {

TEST(SimulationJson, HasTheKeysOfTheContract) {
  Plan plan;
  plan.model = "a \"b\"";
  Simulation simulation = test::drawn_simulation();
  simulation.throughput = 96;
  simulation.iteration_seconds = 1.5;
  simulation.global_batch = 144;
  simulation.stages[1].replica = 2;
  simulation.stages[1].busy = 0.5;
  simulation.stages[1].bubble = 0.25;
  simulation.stages[1].communication = 0.25;
  simulation.stages[1].memory = 123456789012;
  const Json parsed = Json::parse(simulation_json(plan, simulation));
  EXPECT_EQ(parsed.at("version"), 1);
  EXPECT_EQ(parsed.at("model"), "a \"b\"");
  EXPECT_EQ(parsed.at("throughput"), 96.0);
  EXPECT_EQ(parsed.at("iteration_time"), 1.5);
  EXPECT_EQ(parsed.at("global_batch"), 144);
  ASSERT_EQ(parsed.at("stages").size(), 2u);
  const Json stage = {{"virtual_worker", 0},   {"stage", 1},
                      {"replica", 2},          {"device", "n<1>:0"},
                      {"busy", 0.5},           {"bubble", 0.25},
                      {"communication", 0.25}, {"peak_memory", 123456789012}};
  EXPECT_EQ(parsed.at("stages").at(1), stage);
}

TEST(SimulationTable, ARowPerDevice) {
  Plan plan;
  plan.model = "chain";
  Simulation simulation = test::drawn_simulation();
  simulation.stages[0].busy = 0.755;
  simulation.stages[1].memory = 2'000'000'000;
  const std::string text = simulation_table(plan, test::drawn_cluster(), simulation);
  for (const char* part : {"chain under hetpipe (continuous-1f1b, stash, wsp)", "75.5", "2.0 GB",
                           "too much", "n<1>:0", "slow"}) {
    EXPECT_THAT(text, testing::HasSubstr(part));
  }
}

TEST(ChromeTrace, ACompleteEventPerActionAndNamesForAll) {
  const Simulation simulation = test::drawn_simulation();
  const Json parsed = Json::parse(chrome_trace(simulation, test::drawn_cluster()));
  std::map<std::pair<int, int>, double> end;  // [process, thread]
  std::map<int, std::string> nodes;
  int complete = 0;
  int threads = 0;
  for (const Json& event : parsed.at("traceEvents").items()) {
    if (event.at("ph") == "M") {
      if (event.at("name") == "process_name")
        nodes[event.at("pid").get<int>()] = event.at("args").at("name").get<std::string>();
      if (event.at("name") == "thread_name") ++threads;
      continue;
    }
    ASSERT_EQ(event.at("ph"), "X");
    ++complete;
    const std::pair row{event.at("pid").get<int>(), event.at("tid").get<int>()};
    EXPECT_GE(event.at("ts").get<double>(), end[row]);  // no action over another
    end[row] = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  EXPECT_EQ(complete, 9);  // ten actions, one of which takes no time
  EXPECT_EQ(threads, 2);
  EXPECT_EQ(nodes, (std::map<int, std::string>{{0, "n0"}, {1, "n<1>"}}));
  EXPECT_DOUBLE_EQ((end[{0, 0}]), 9e6);  // microseconds
  const Json& last = parsed.at("traceEvents").items().back();
  EXPECT_EQ(last.at("name"), "B1");
  EXPECT_EQ(last.at("cat"), "backward");
  EXPECT_EQ(last.at("args").at("minibatch"), 1);
}

}  // namespace simulate_text_test
}  // namespace hetpipe
