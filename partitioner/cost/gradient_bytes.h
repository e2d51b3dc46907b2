// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "partitioner/cost/run_maxima.h"
#include "partitioner/profile/profile.h"

// What backwards work on.
namespace hetpipe {

// Gradients of one micro-batch that are there while the backward of a layer works, and what its
// kernels take beside them. More is known of layers in a chain, each of which alone reads the one
// before it.
class GradientBytes {
 public:
  GradientBytes(const Profile& profile, const LayerCosts& costs);

  struct OfLayer {
    // To the byte where it is known what kernels take; elsewhere only layers that hold two
    // gradients. While it works the stash of the layers behind it is not there. 0: not known.
    std::int64_t known = 0;
    // The gradient of its output and, at most as much again, those that wait beside it for a layer
    // before it (skips and branches), unless they are messages.
    std::int64_t unknown = 0;
  };
  // Of layer l of the stage [first, end). The gradient of the stage's output is a message, but
  // that output is there once more, in another. Of a layer that is a stage both gradients are
  // messages: where it is known what kernels take, that counts, or what its output is larger than
  // the message that goes back, which is not there yet.
  OfLayer of(int l, int first, int end) const;

  // Whether what is known is all that a layer needs.
  bool measured() const { return measured_; }

  // A tensor that bypasses a layer.
  struct Passing {
    int producer = 0;
    int next_reader = 0;
    std::int64_t bytes = 0;
  };
  std::span<const Passing> passing(int l) const {
    return layers_[static_cast<std::size_t>(l)].passing;
  }
  int layers() const { return static_cast<int>(layers_.size()); }

 private:
  struct Layer {
    std::int64_t output = 0;
    std::int64_t input = 0;  // its gradient, where that is beside the output's
    std::int64_t scratch = 0;
    std::int64_t returned = 0;  // gradients of all its inputs
    bool passes_on = false;     // read by the next layer alone, or by none
    bool chained = false;       // and alone reads the layer before it
    bool apart = false;
    std::vector<Passing> passing{};
  };
  std::vector<Layer> layers_;
  bool measured_;
};

// The most of these over the layers of a stage but its first and last, for searches that ask
// millions of times.
class GradientPeaks {
 public:
  // `kept`: running sums of the layers' stashes, [layers + 1]; `parameters`: of each layer.
  GradientPeaks(const Profile& profile, const LayerCosts& costs, std::vector<std::int64_t> kept,
                std::vector<std::int64_t> parameters);

  struct Most {
    std::int64_t unknown = 0;  // GradientBytes::OfLayer::unknown where no more is known
    std::int64_t known = 0;    // with the stashes of all layers up to its own; 0: none
    std::int64_t adding = 0;   // likewise, of either, with the layer's parameters; 0: none
    void raise(const Most& other) {
      unknown = std::max(unknown, other.unknown);
      known = std::max(known, other.known);
      adding = std::max(adding, other.adding);
    }
  };
  Most of_layer(int l, int first, int end) const;
  Most between(int first, int end) const {
    if (end - first < 3) return {};
    const Edge& front = front_[static_cast<std::size_t>(first)];
    const Edge& back = back_[static_cast<std::size_t>(end)];
    const bool apart = front.bound <= back.bound && front.bound < end && back.bound > first;
    if (!apart) return one_by_one(first, end);
    Most most = front.most;
    most.raise(back.most);
    if (front.bound < back.bound) {
      most.raise({unknown_.of(front.bound, back.bound), known_.of(front.bound, back.bound),
                  adding_.of(front.bound, back.bound)});
    }
    return most;
  }

 private:
  // Layers behind a cut that tensors from before it bypass, or before one that tensors bypass on
  // their way to readers behind it: their gradients are messages.
  struct Edge {
    int bound = 0;  // one past them, or the first
    Most most{};    // of them
  };
  Most one_by_one(int first, int end) const;

  GradientBytes gradients_;
  std::vector<std::int64_t> kept_;
  std::vector<std::int64_t> parameters_;
  std::vector<Edge> front_, back_;  // [first], [end]
  RunMaxima unknown_, known_, adding_;
};

}  // namespace hetpipe
