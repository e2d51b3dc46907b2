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
// kernels take beside them: all of it where the profile says what they take, else as much as is
// known.
class GradientBytes {
 public:
  GradientBytes(const Profile& profile, const LayerCosts& costs);

  struct OfLayer {
    // The gradient of its output, those of its inputs that are not written into its place, those
    // that wait beside it for a layer before it (skips and branches), and scratch. The stash of the
    // layers behind it has gone. Where it is not known what kernels take, only of layers in a
    // chain, each of which alone reads the one before it, that hold two gradients. 0: not known.
    std::int64_t known = 0;
    // The gradient of its output and, at most as much again, those that wait beside it.
    std::int64_t unknown = 0;
  };
  // Of layer l of the stage [first, end). Gradients of what comes from other stages, or goes there
  // last, are messages. At the end of a stage so is that of the output, but the output itself is
  // there once more, in another; of a layer that is a stage, while the message that goes back is
  // not there yet.
  OfLayer of(int l, int first, int end) const;

  // Whether the profile says what kernels take.
  bool measured() const { return measured_; }

  struct Tensor {
    int producer = 0;
    std::int64_t bytes = 0;
    int next_reader = 0;  // of those that bypass a layer
  };
  std::span<const Tensor> passing(int l) const {
    return layers_[static_cast<std::size_t>(l)].passing;
  }
  std::span<const Tensor> inputs(int l) const {
    return layers_[static_cast<std::size_t>(l)].inputs;
  }
  int layers() const { return static_cast<int>(layers_.size()); }

 private:
  struct Layer {
    std::int64_t output = 0;
    std::int64_t scratch = 0;
    bool apart = false;    // ProfileLayer::gradients_apart
    bool chained = false;  // alone reads the layer before it, and is read by the next alone
    std::vector<Tensor> inputs{};
    std::vector<Tensor> passing{};  // that bypass it
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
  // Layers behind a cut that tensors from before it reach or bypass, or before one that tensors
  // bypass on their way to readers behind it: their gradients are messages.
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
