// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "partitioner/planners/pipedream_states.h"

// PipeDream's hierarchical dynamic programme (Narayanan et al., SOSP 2019, section 3.1, as its
// published optimizer computes it, activation transfers counted). Level 1 cuts the model over the
// devices of one machine, level 2 over machines that each run level 1's best cut, and so on. With
// A^0(i, j) the seconds of the layers between two states, a_s the bytes that cross the cut at s, P
// the bytes of the parameters between two states, B_k the level's bandwidth and g_k its groups:
//
//   whole  D^k(i, j, m) = (A^{k-1}(i, j) + 4 (m-1) P / (m B_k) / g_{k-1}) / m
//   last   T^k(s, j, m) = max((A^{k-1}(s, j) + 4 (m-1) P / (m B_k)) / m,
//                             2 a_s / (m B_k), 2 a_j / (m B_k))
//   A^k(i, j, m) = min(D^k(i, j, m), min over s, m' of max(A^k(i, s, m-m'), T^k(s, j, m')))
//   A^k(i, j) = A^k(i, j, g_k)
//
// The seconds are per minibatch: m replicas work on m minibatches at once. Three habits of the
// published optimizer are kept, because they are its objective: gradients and weights cross twice
// (4, where the paper's text says 2); the all-reduce of a model that stays whole is divided by the
// groups of the level below, that of a cut one is not; the first stage's output is charged to the
// second stage alone, at the second stage's number of replicas.
namespace hetpipe {

struct PipedreamLevel {
  int groups = 1;        // devices of a machine, machines of a rack, ...
  double bandwidth = 1;  // bytes/s between two of them
};

enum class SpareDevices { must_work, may_rest };

struct PipedreamRequest {
  std::vector<PipedreamLevel> levels;  // innermost first
  SpareDevices spare = SpareDevices::must_work;

  // These two for one level alone.
  int most_replicas = std::numeric_limits<int>::max();
  // How many devices may work on later stages, at most, while replicas of the stage after state
  // `after` (-1: the start) up to `state` have the memory; below 0: they never have. Empty: any
  // number.
  std::function<int(int after, int state, int replicas)> most_behind;
};

// A stage holds the layers of `state` that `after` has not.
struct PipedreamStage {
  int after = -1;  // -1: the start
  int state = 0;
  int replicas = 1;  // of all levels
  // Replicas per level, innermost first: replicas[0] in one machine, on replicas[1] machines, ...
  std::vector<int> per_level;
  int outer = 0;  // which of the outermost level's stages it is a part of
  bool operator==(const PipedreamStage&) const = default;
};

struct PipedreamCut {
  double seconds = std::numeric_limits<double>::infinity();  // the objective; infinite: none fits
  std::vector<PipedreamStage> stages;
};

// The cut with the smallest objective; exact. Of several, the one that rests the fewest devices and
// whose stages' times add up to least (at each level).
PipedreamCut pipedream_cut(const PipedreamStates& states, const PipedreamRequest& request);

}  // namespace hetpipe
