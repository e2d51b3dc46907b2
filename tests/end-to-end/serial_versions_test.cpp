// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "base/text.h"
#include "tests/end-to-end/serial_cases.h"
#include "tests/end-to-end/serial_place.h"

// Which weights the serial programs' passes see, and how far predictions look: against the drawings
// and tables of the papers.
namespace hetpipe {
namespace serial_versions_test {

Training small(const Composed& of, const std::vector<int>& cut, int in_flight,
               int micro_batches = 1) {
  return composed_training(of, {{8, cut}}, in_flight, micro_batches);
}

const std::vector<int>& cut_into(int stages) {
  static const std::map<int, std::vector<int>> cuts{{1, {}}, {2, {3}}, {3, {3, 5}}, {4, {2, 4, 5}}};
  return cuts.at(stages);
}

std::string versions(const SerialSystem::Result& result, int stage, bool forward) {
  std::vector<std::string> words;
  for (const SerialUse& use : result.uses) {
    if (use.stage != stage) continue;
    words.push_back(std::to_string(forward ? use.forward : use.backward));
  }
  return join(words, " ");
}

// PipeDream, 3 stages, 3 in flight: stage k holds 3 - k, whose F's are older than their B's by so
// many updates less one.
//   stage 0: F0 F1 F2 B0 F3 B1 F4 B2 B3 B4
//   stage 1: F0 F1 B0 F2 B1 F3 B2 F4 B3 B4
//   stage 2: F0 B0 F1 B1 F2 B2 F3 B3 F4 B4
TEST(SerialVersions, ContinuousOneForwardOneBackward) {
  const auto run = [](const std::string& weights, const std::string& sync) {
    Training training = small({"pipedream", "", weights, sync}, cut_into(3), 3);
    training.samples = 40;
    return Bench(training).serial_system();
  };
  const SerialSystem::Result stash = run("stash", "");
  EXPECT_EQ(versions(stash, 0, true), "0 0 0 1 2");
  EXPECT_EQ(versions(stash, 1, true), "0 0 1 2 3");
  EXPECT_EQ(versions(stash, 2, true), "0 1 2 3 4");
  for (int k = 0; k < 3; ++k) EXPECT_EQ(versions(stash, k, false), versions(stash, k, true));
  const SerialSystem::Result newest = run("newest", "");
  for (int k = 0; k < 3; ++k) {
    EXPECT_EQ(versions(newest, k, true), versions(stash, k, true));
    EXPECT_EQ(versions(newest, k, false), "0 1 2 3 4");
  }
  for (const SerialSystem::Result& lagging : {run("vertical-sync", ""), run("stash", "wsp")}) {
    for (int k = 0; k < 3; ++k) EXPECT_EQ(versions(lagging, k, true), "0 0 0 1 2");
    for (int k = 0; k < 3; ++k) EXPECT_EQ(versions(lagging, k, false), "0 0 0 1 2");
  }
  // One update for minibatches 0 to 2, one for 3 and 4.
  const SerialSystem::Result two = run("two-versions", "");
  for (int k = 0; k < 3; ++k) EXPECT_EQ(versions(two, k, true), "0 0 0 0 0");
}

// ALGORITHMS of TiMePReSt (arXiv 2410.14312), W = 3, N = 2, from 1 there:
//   S0 1A 1B 2A 2B 3A 3B b1 4A 4B b2   S1 1A 1B 2A 2B b1 3A 3B b2 4A   S2 1A 1B b1 2A 2B b2 3A 3B
TEST(SerialVersions, NForwardsOneBackward) {
  for (const std::string weights : {"", "mixed"}) {
    Training training = small({"timeprest", "", weights, ""}, cut_into(3), 3, 2);
    training.samples = 32;
    const SerialSystem::Result result = Bench(training).serial_system();
    EXPECT_EQ(versions(result, 0, true), "0 0 0 0 0 0 1 1");
    EXPECT_EQ(versions(result, 1, true), "0 0 0 0 1 1 2 2");
    EXPECT_EQ(versions(result, 2, true), "0 0 1 1 2 2 3 3");
    for (int k = 0; k < 3; ++k) EXPECT_EQ(versions(result, k, false), "0 0 1 1 2 2 3 3");
  }
}

// Two stages, minibatches of two micro-batches (overlapped.cpp):
//   stage 0: F0   F0.1 B0   F1   B0.1 F1.1 B1   F2   B1.1 F2.1 B2   B2.1
//   stage 1: F0   B0   F0.1 B0.1 F1   B1   F1.1 B1.1 F2   B2   F2.1 B2.1
// F1 comes before the update of minibatch 0 at stage 0, F1.1 after it. The bellwether's weights are
// those of F1 for both.
TEST(SerialVersions, XPipe) {
  const auto run = [](const std::string& weights) {
    Training training = small({"xpipe", "", weights, ""}, cut_into(2), 2, 2);
    training.samples = 24;
    return Bench(training).serial_system();
  };
  const SerialSystem::Result stash = run("stash");
  EXPECT_EQ(versions(stash, 0, true), "0 0 0 1 1 2");
  EXPECT_EQ(versions(stash, 1, true), "0 0 1 1 2 2");
  EXPECT_EQ(versions(run("newest"), 0, false), "0 0 1 1 2 2");
  const SerialSystem::Result bellwether = run("");
  EXPECT_EQ(versions(bellwether, 0, true), "0 0 0 0 1 1");
  EXPECT_EQ(versions(bellwether, 1, true), "0 0 1 1 2 2");
  EXPECT_EQ(versions(bellwether, 0, false), "0 0 1 1 2 2");
}

std::string ahead(const Composed& of, int stages, int in_flight, int micro_batches) {
  Plan plan;
  plan.system = of.system;
  plan.in_flight = in_flight;
  plan.micro_batches = micro_batches;
  plan.virtual_workers.emplace_back().stages.resize(static_cast<std::size_t>(stages));
  std::string text;
  for (const VersionDifference& s : SerialRules(plan, 0, 1).ahead) {
    text += format("(%d,%d)", s.forward, s.backward);
  }
  return text;
}

TEST(SerialVersions, HowFarPredictionsLook) {
  const auto spectrain = [](int stages) {
    return ahead({"spectrain", "", "", ""}, stages, stages, 1);
  };
  EXPECT_EQ(spectrain(1), "(0,0)");
  EXPECT_EQ(spectrain(2), "(1,0)(0,0)");
  EXPECT_EQ(spectrain(3), "(2,0)(1,0)(1,1)");
  EXPECT_EQ(spectrain(4), "(3,0)(2,0)(2,1)(1,1)");
  EXPECT_EQ(spectrain(6), "(5,0)(4,0)(4,1)(3,1)(3,2)(2,2)");
  EXPECT_EQ(spectrain(8), "(7,0)(6,0)(6,1)(5,1)(5,2)(4,2)(4,3)(3,3)");
  const auto xpipe = [](int stages, int micro_batches) {
    return ahead({"xpipe", "", "", ""}, stages, 1, micro_batches);
  };
  EXPECT_EQ(xpipe(2, 1), "(1,0)(0,0)");
  EXPECT_EQ(xpipe(2, 2), "(1,0)(1,0)");
  EXPECT_EQ(xpipe(2, 4), "(1,1)(1,1)");
  EXPECT_EQ(xpipe(4, 1), "(3,0)(2,0)(2,1)(2,1)");
  EXPECT_EQ(xpipe(4, 2), "(2,0)(2,0)(2,1)(1,1)");
  EXPECT_EQ(xpipe(4, 4), "(2,1)(1,1)(1,1)(1,1)");
  EXPECT_EQ(xpipe(4, 8), "(1,1)(1,1)(1,1)(1,1)");
}

TEST(SerialVersions, NothingAheadIsTheWeightsThemselves) {
  for (const std::string name : {"sgd", "sgd-momentum", "rmsprop", "adam", "adamw", "lamb"}) {
    SerialSteps steps({.name = name, .rate = 0.1f}, 3);
    Floats weights{1, -2, 3};
    EXPECT_EQ(steps.predicted(weights, 2, 0), weights);  // no step yet
    const Floats delta = steps.delta({0.5f, 0.25f, -1}, weights, 1, 0);
    EXPECT_EQ(steps.predicted(weights, 0, 0), weights);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_FLOAT_EQ(steps.predicted(weights, 1, 0)[i], weights[i] + delta[i]);
      EXPECT_FLOAT_EQ(steps.predicted(weights, 3, 0)[i], weights[i] + 3 * delta[i]);
    }
  }
}

// One minibatch in flight: nothing comes in between, and s = 0 everywhere.
TEST(SerialVersions, PredictedWithNothingAheadIsNewest) {
  const Training newest = small({"vanilla", "", "", ""}, cut_into(3), 1);
  const Training predicted = small({"spectrain", "", "", ""}, cut_into(3), 1);
  const Bench bench(newest);
  const SerialSystem::Result one = bench.serial_system();
  const SerialSystem::Result other = Bench(predicted).serial_system();
  expect_same(one.end(), other.end(), bench.model(), one.label);
}

double distance(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  }
  return std::sqrt(sum / static_cast<double>(a.size()));
}

// RMSE(predicted, W(t+s)) < RMSE(W(t), W(t+s)), over a run (SpecTrain: arXiv 1809.02839).
TEST(SerialVersions, PredictionsComeCloserThanStaleWeights) {
  for (const Composed& of :
       std::vector<Composed>{{"spectrain", "", "", ""}, {"xpipe", "", "", ""}}) {
    for (const std::string optimizer : {"sgd-momentum", "adam"}) {
      SCOPED_TRACE(of.system + " " + optimizer);
      Training training = small(of, cut_into(4), 4, of.system == "xpipe" ? 2 : 1);
      training.optimizer = {.name = optimizer, .rate = optimizer == "adam" ? 0.002f : 0.02f};
      training.samples = 240;
      const SerialSystem::Result result = Bench(training).serial_system();
      for (int stage = 0; stage < 4; ++stage) {
        double predicted = 0, stale = 0;
        int counted = 0;
        for (const SerialUse& use : result.uses) {
          if (use.stage != stage || use.micro != 0 || use.forward_ahead == 0) continue;
          if (use.forward < 2) continue;  // a direction of a step or two is none
          const auto t = static_cast<std::size_t>(use.forward);
          const auto& history = result.versions[static_cast<std::size_t>(stage)];
          const std::size_t then = t + static_cast<std::size_t>(use.forward_ahead);
          if (then >= history.size() || history[t].empty()) continue;
          predicted += distance(result.used.at({stage, use.minibatch}), history[then]);
          stale += distance(history[t], history[then]);
          ++counted;
        }
        if (result.versions[static_cast<std::size_t>(stage)][0].empty()) continue;
        EXPECT_GE(counted, 20) << "stage " << stage;
        EXPECT_LT(predicted, stale) << "stage " << stage;
      }
    }
  }
}

// Waves of one virtual worker at D = 0 hold what a run without servers holds: the same versions,
// and weights that differ by the rounding of a wave's sum alone.
TEST(SerialVersions, OneVirtualWorkerUnderWsp) {
  struct Case {
    Composed of;
    int in_flight, micro_batches;
  };
  for (const Case& c : std::vector<Case>{{{"vanilla", "", "", ""}, 3, 1},
                                         {{"spectrain", "", "", ""}, 3, 1},
                                         {{"spectrain", "", "", ""}, 5, 2},
                                         {{"xpipe", "", "", ""}, 3, 2},
                                         {{"xpipe", "", "newest", ""}, 2, 4},
                                         {{"timeprest", "", "", ""}, 3, 2},
                                         {{"timeprest", "", "mixed", ""}, 4, 3},
                                         {{"gpipe", "", "", ""}, 3, 4}}) {
    SCOPED_TRACE(c.of.system + " " + c.of.weights);
    Training training = small(c.of, cut_into(3), c.in_flight, c.micro_batches);
    training.workers[0].minibatch = 12;
    training.samples = 150;
    const bool flush = c.of.system == "gpipe";
    SerialSystem program = Bench(training).serial_program();
    const Bench bench(training);
    const SerialSystem::Result alone =
        flush ? run_played(bench.serial_program()) : bench.serial_system();
    training.sync = "wsp";
    SerialSystem::Result waves = Bench(training).serial_system();
    for (SerialUse& use : waves.uses) use.label = 0;
    EXPECT_TRUE(alone.uses == waves.uses);
    EXPECT_LT(distance(alone.end().weights, waves.end().weights), 1e-6);
  }
}

// Of W(t) and what comes after it only W(t)'s own updates are certain: with D = 1 the label lags.
TEST(SerialVersions, LabelsOfComposedSystems) {
  Training training = small({"spectrain", "", "", "wsp"}, cut_into(2), 2);
  training.workers.push_back({8, {4}});
  training.distance = 1;
  training.samples = 128;
  const SerialSystem::Result result = Bench(training).serial_system();
  ASSERT_FALSE(result.uses.empty());
  for (const SerialUse& use : result.uses) {
    const Wave gate = use.minibatch % 2 == 1 ? use.minibatch / 2 : use.minibatch / 2 - 1;
    EXPECT_EQ(use.label, std::max<Wave>(0, gate - 1));
  }
}

// Cuts that differ: a layer's updates are the same at every virtual worker, though it may sit in
// another stage there. (The program ensures that all end with one model.)
TEST(SerialVersions, VirtualWorkersWithOtherCuts) {
  for (const std::string system :
       {"pipedream", "vanilla", "spectrain", "pipedream-2bw", "xpipe", "timeprest"}) {
    SCOPED_TRACE(system);
    Training training = small({system, "", "", ""}, cut_into(3), 3, 2);
    training.workers.push_back({6, cut_into(2)});
    training.workers.push_back({4, {2, 4, 5}});
    training.samples = 100;
    const SerialSystem::Result result = Bench(training).serial_system();
    EXPECT_EQ(result.label, 2);  // 6 rounds, waves of 3
    EXPECT_NE(result.at.at(0).weights, result.at.at(2).weights);
  }
}

}  // namespace serial_versions_test
}  // namespace hetpipe
