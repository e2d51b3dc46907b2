// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../cases.h"
#include "partitioner/schedule/schedule.h"
#include "partitioner/simulator/simulate.h"

// A simulation written by hand, to be drawn: two devices of one virtual worker on two nodes, F of
// 1 s and B of 2 s, two minibatches.
//   n0:0 fast  F0 F1 .. .. B0 B0 .. B1 B1      (one column per second)
//   n1:0 slow  .. F0 B0 B0 F1 B1 B1 .. ..
namespace hetpipe::test {

inline Cluster drawn_cluster() {
  Cluster cluster = cluster_of({{"fast"}, {"slow"}}, 1'000'000'000);
  cluster.nodes[1].name = "n<1>";  // a name that XML must escape
  return cluster;
}

inline Simulation drawn_simulation() {
  Simulation simulation;
  simulation.stages.resize(2);
  simulation.stages[0].device = {"n0", 0};
  simulation.stages[1].device = {"n<1>", 0};
  simulation.stages[1].stage = 1;
  const auto add = [&](int row, const char* action, double start, double end) {
    simulation.events.push_back({row, *try_parse_action(action), start, end});
  };
  add(0, "F0", 0, 1);
  add(0, "S0", 1, 1);  // takes no time: nothing to draw
  add(1, "V0", 0, 1);
  add(0, "F1", 1, 2);
  add(1, "F0", 1, 2);
  add(1, "B0", 2, 4);
  add(1, "F1", 4, 5);
  add(0, "B0", 4, 6);
  add(1, "B1", 5, 7);
  add(0, "B1", 7, 9);
  return simulation;
}

}  // namespace hetpipe::test
