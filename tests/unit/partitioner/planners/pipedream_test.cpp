// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/pipedream_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace hetpipe {
namespace pipedream_test {

// --- brute force, by the definition alone ---

using Layers = std::set<int>;

struct Graph {
  std::vector<LayerLoad> layers;
  std::vector<Layers> producers;  // all of them

  explicit Graph(std::vector<LayerLoad> given) : layers(std::move(given)) {
    for (const LayerLoad& layer : layers) {
      Layers all;
      for (const int input : layer.inputs) {
        all.insert(input);
        all.insert(producers[static_cast<std::size_t>(input)].begin(),
                   producers[static_cast<std::size_t>(input)].end());
      }
      producers.push_back(std::move(all));
    }
  }

  double sum(const Layers& set, double LayerLoad::*member) const {
    double total = 0;
    for (const int l : set) total += layers[static_cast<std::size_t>(l)].*member;
    return total;
  }

  // The antichain's outputs, and those of its layers' producers that feed something else.
  double output_bytes(const Layers& set) const {
    Layers counted;
    for (const int a : set) {
      const Layers& mine = producers[static_cast<std::size_t>(a)];
      const bool inner = std::any_of(set.begin(), set.end(), [&](int other) {
        return producers[static_cast<std::size_t>(other)].contains(a);
      });
      if (inner) continue;
      counted.insert(a);
      for (std::size_t reader = 0; reader < layers.size(); ++reader) {
        if (static_cast<int>(reader) == a || mine.contains(static_cast<int>(reader))) continue;
        for (const int p : layers[reader].inputs) {
          if (mine.contains(p)) counted.insert(p);
        }
      }
    }
    return sum(counted, &LayerLoad::output_bytes);
  }

  std::vector<Layers> closed_sets() const {
    std::vector<Layers> result;
    for (unsigned bits = 1; bits < 1u << layers.size(); ++bits) {
      Layers set;
      for (std::size_t l = 0; l < layers.size(); ++l) {
        if ((bits >> l & 1) != 0) set.insert(static_cast<int>(l));
      }
      if (std::all_of(set.begin(), set.end(), [&](int l) {
            const Layers& needed = producers[static_cast<std::size_t>(l)];
            return std::includes(set.begin(), set.end(), needed.begin(), needed.end());
          })) {
        result.push_back(std::move(set));
      }
    }
    return result;
  }
};

class BruteForce {
 public:
  BruteForce(const Graph& graph, const PipedreamRequest& request)
      : graph_(graph), request_(request), sets_(graph.closed_sets()) {}

  double best() {
    Layers all;
    for (std::size_t l = 0; l < graph_.layers.size(); ++l) all.insert(static_cast<int>(l));
    return best(request_.levels.size(), {}, all);
  }

 private:
  // What `level` levels make of the layers in `to` and not in `from`; level 0 is one device.
  double best(std::size_t level, const Layers& from, const Layers& to) {
    if (level == 0) {
      return graph_.sum(to, &LayerLoad::seconds) - graph_.sum(from, &LayerLoad::seconds);
    }
    const auto known = known_.find({level, from, to});
    if (known != known_.end()) return known->second;
    const int groups = request_.levels[level - 1].groups;
    double result = std::numeric_limits<double>::infinity();
    const int least = request_.spare == SpareDevices::may_rest ? 1 : groups;
    for (int machines = least; machines <= groups; ++machines) {
      for (int first = 1; first <= machines; ++first) {
        for (const Layers& set : sets_) {
          if (!between(from, set, to) && set != to) continue;
          const double p = graph_.sum(set, &LayerLoad::parameter_bytes) -
                           graph_.sum(from, &LayerLoad::parameter_bytes);
          const double below = level > 1 ? request_.levels[level - 2].groups : 1;
          const double sync =
              4.0 * (first - 1) * p / (request_.levels[level - 1].bandwidth * first) / below;
          const double whole = (best(level - 1, from, set) + sync) / first;
          later(level, set, to, machines - first, whole, result);
        }
      }
    }
    return known_[{level, from, to}] = result;
  }

  // All ways to continue after `from`, with the slowest stage so far.
  void later(std::size_t level, const Layers& from, const Layers& to, int machines, double slowest,
             double& result) {
    if (from == to) {
      if (machines == 0) result = std::min(result, slowest);
      return;
    }
    const double bandwidth = request_.levels[level - 1].bandwidth;
    for (int m = 1; m <= machines; ++m) {
      for (const Layers& set : sets_) {
        if (!between(from, set, to) && set != to) continue;
        const double p = graph_.sum(set, &LayerLoad::parameter_bytes) -
                         graph_.sum(from, &LayerLoad::parameter_bytes);
        double last = (best(level - 1, from, set) + 4.0 * (m - 1) * p / (bandwidth * m)) / m;
        last = std::max(last, 2 * graph_.output_bytes(from) / (bandwidth * m));
        if (set.size() < graph_.layers.size()) {
          last = std::max(last, 2 * graph_.output_bytes(set) / (bandwidth * m));
        }
        later(level, set, to, machines - m, std::max(slowest, last), result);
      }
    }
  }

  static bool between(const Layers& from, const Layers& set, const Layers& to) {
    return set.size() > from.size() && set.size() < to.size() &&
           std::includes(set.begin(), set.end(), from.begin(), from.end()) &&
           std::includes(to.begin(), to.end(), set.begin(), set.end());
  }

  const Graph& graph_;
  const PipedreamRequest& request_;
  std::vector<Layers> sets_;
  std::map<std::tuple<std::size_t, Layers, Layers>, double> known_;
};

std::vector<LayerLoad> random_graph(std::mt19937& random, int layers) {
  std::uniform_real_distribution<double> some(0, 1);
  std::vector<LayerLoad> result;
  for (int l = 0; l < layers; ++l) {
    LayerLoad load{{}, some(random), some(random), 0.3 * some(random)};
    if (l > 0) {
      load.inputs = {some(random) < 0.6 ? l - 1 : static_cast<int>(some(random) * l)};
      const int other = static_cast<int>(some(random) * l);
      if (some(random) < 0.3 && other != load.inputs[0]) load.inputs.push_back(other);
      std::sort(load.inputs.begin(), load.inputs.end());
    }
    result.push_back(std::move(load));
  }
  return result;
}

TEST(PipedreamCut, EqualToBruteForceOnSmallGraphs) {
  std::mt19937 random(7);
  int branching = 0;
  for (int round = 0; round < 1000; ++round) {
    const Graph graph(random_graph(random, 2 + static_cast<int>(random() % 5)));
    PipedreamRequest request;
    request.levels = {{1 + static_cast<int>(random() % 4), 2 + static_cast<double>(random() % 20)}};
    if (round % 3 == 0) {
      request.levels[0].groups = 1 + static_cast<int>(random() % 2);
      request.levels.push_back({1 + static_cast<int>(random() % 3), 5});
    }
    if (round % 2 == 0) request.spare = SpareDevices::may_rest;
    const double expected = BruteForce(graph, request).best();
    const PipedreamStates states = antichain_states(graph.layers);
    branching += states.size() > static_cast<int>(graph.layers.size());
    ASSERT_EQ(states.size(), static_cast<int>(graph.closed_sets().size())) << "round " << round;
    const PipedreamCut cut = pipedream_cut(states, request);
    if (expected == std::numeric_limits<double>::infinity()) {
      ASSERT_EQ(cut.seconds, expected) << "round " << round;
      continue;
    }
    ASSERT_NEAR(cut.seconds, expected, 1e-12) << "round " << round;
    int used = 0;
    for (const PipedreamStage& stage : cut.stages)
      used += request.levels.size() == 1 ? stage.replicas : 0;
    if (request.levels.size() == 1 && request.spare == SpareDevices::must_work) {
      ASSERT_EQ(used, request.levels[0].groups) << "round " << round;
    }
  }
  EXPECT_GT(branching, 300);  // graphs with more states than layers
}

// A few of a long chain's states, as they were; its whole is one of them.
TEST(PipedreamCut, LikelyStatesAreSomeOfThem) {
  std::mt19937 random(12);
  auto layers = random_graph(random, 100);
  for (std::size_t l = 1; l < layers.size(); ++l) layers[l].inputs = {static_cast<int>(l) - 1};
  const PipedreamStates all = prefix_states(layers);
  EXPECT_EQ(likely_states(all, all.size()).size(), all.size());
  const PipedreamStates few = likely_states(all, 10);
  EXPECT_GE(few.size(), 8);
  EXPECT_LE(few.size(), 12);
  EXPECT_EQ(few.seconds.back(), all.seconds.back());
  for (std::size_t i = 0; i < few.layers.size(); ++i) {
    const std::size_t state = few.layers[i].size() - 1;
    EXPECT_EQ(few.layers[i], all.layers[state]);
    EXPECT_EQ(few.seconds[i], all.seconds[state]);
    EXPECT_EQ(few.parameter_bytes[i], all.parameter_bytes[state]);
    EXPECT_EQ(few.output_bytes[i], all.output_bytes[state]);
    EXPECT_EQ(few.before[i].size(), i);
  }
}

TEST(PipedreamCut, MemoryAndMostReplicasAreHeld) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    auto layers = random_graph(random, 5);
    for (std::size_t l = 1; l < layers.size(); ++l) layers[l].inputs = {static_cast<int>(l) - 1};
    PipedreamRequest request;
    request.levels = {{4, 10}};
    request.most_replicas = 2;
    const PipedreamStates states = prefix_states(layers);
    // A stage may hold two layers for each replica, one less for each device behind it.
    request.most_behind = [](int after, int state, int replicas) {
      return 2 * replicas + 2 - (state - after);
    };
    const PipedreamCut cut = pipedream_cut(states, request);
    ASSERT_FALSE(cut.stages.empty());
    int left = 4;
    for (const PipedreamStage& stage : cut.stages) {
      left -= stage.replicas;
      EXPECT_LE(stage.replicas, 2);
      EXPECT_LE(left, request.most_behind(stage.after, stage.state, stage.replicas));
    }
  }
}

}  // namespace pipedream_test
}  // namespace hetpipe
