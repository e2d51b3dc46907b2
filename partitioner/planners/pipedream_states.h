// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

// The states of PipeDream's optimizer: how far a minibatch has come. A state is a set of layers
// closed under "its producers too"; a stage is what lies between two states, one inside the other.
// On a chain the states are the layers, in order.
namespace hetpipe {

// Of one layer, for one minibatch on one device. Seconds, bytes.
struct LayerLoad {
  std::vector<int> inputs;  // producers, all before the layer
  double seconds = 0;       // forward + backward
  double parameter_bytes = 0;
  double output_bytes = 0;
};

struct PipedreamStates {
  // Of each state. The last one holds all layers.
  std::vector<double> seconds;           // of its layers
  std::vector<double> parameter_bytes;   // of its layers
  std::vector<double> output_bytes;      // that cross a cut right after it
  std::vector<std::vector<int>> before;  // the states strictly inside it, ascending
  std::vector<std::vector<int>> layers;  // ascending

  int size() const { return static_cast<int>(seconds.size()); }
};

// The states that PipeDream's published optimizer enumerates, by antichains of the layer graph:
// from the first source on, a state grows by a layer that reads one of its layers, and by all that
// this layer needs (so that side inputs come in with their first reader). What crosses the cut is
// counted as there: the outputs of the antichain, and of every producer of an antichain's layer
// that feeds anything outside that layer's own producers, even if all its readers are inside.
// UserError when there are more than 20,000 (a graph with many parallel branches).
PipedreamStates antichain_states(std::span<const LayerLoad> layers);

// The states that a plan can hold, whose stages are runs of the layers' order: one per layer. What
// crosses the cut after layer l is every tensor made up to l and read after it, once.
PipedreamStates prefix_states(std::span<const LayerLoad> layers);

// About `most` of these states, where cuts are likely (likely_cuts.h); all if there are hardly
// more.
PipedreamStates likely_states(const PipedreamStates& prefixes, int most);

}  // namespace hetpipe
