// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "partitioner/cost/gradient_bytes.h"
#include "partitioner/cost/run_maxima.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {

// The most of what backwards work on over the layers of a stage, for searches that ask millions of
// times: each answer takes a few look-ups, however long the stage and its skips are.
//
// A layer's bytes depend on where its stage begins and ends only through the tensors that reach or
// bypass it and come from before the stage, or go behind it: those are messages. So stages that
// begin anywhere between two producers of tensors that bypass layers have the same bytes at all of
// their layers but the first, and those that end between two readers of such tensors too.
class GradientPeaks {
 public:
  // `kept`: running sums of the layers' stashes, [layers + 1]; `parameters`: of each layer.
  GradientPeaks(const Profile& profile, const LayerCosts& costs, std::vector<std::int64_t> kept,
                std::vector<std::int64_t> parameters);

  const GradientBytes& of_layers() const { return gradients_; }

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
  // Of the layers of the stage [first, end) but the last.
  Most before_last(int first, int end) const {
    if (end - first < 2) return {};
    const Edge& front = front_[static_cast<std::size_t>(first)];
    const Edge& back = back_[static_cast<std::size_t>(end)];
    if (front.bound > back.bound) return of_both_ends(first, end);
    Most most = front.most;
    most.raise(back.most);
    if (front.bound < back.bound) most.raise(inside_.of(front.bound, back.bound));
    return most;
  }
  Most last(int first, int end) const {
    const Last& last = last_[static_cast<std::size_t>(end - 1)];
    return first <= last.first_input ? last.most : of_layer(end - 1, first, end);
  }
  // Of all layers of the stage; no less, and quicker to tell.
  Most at_most(int first, int end) const {
    Most most = last_[static_cast<std::size_t>(end - 1)].most;
    if (end - first > 1) most.raise(inside_.of(first, end - 1));
    return most;
  }

 private:
  // Of any run of layers.
  class Runs {
   public:
    Runs() = default;
    explicit Runs(std::span<const Most> layers);
    Most of(int first, int end) const {
      return {unknown_.of(first, end), known_.of(first, end), adding_.of(first, end)};
    }

   private:
    RunMaxima unknown_, known_, adding_;
  };
  // The first layer, and those behind it that tensors from before it reach or bypass; or those
  // before a stage's last one that tensors bypass on their way to other stages.
  struct Edge {
    int bound = 0;  // one past them, or the first
    Most most{};    // of them
  };
  struct Last {
    int first_input = 0;  // where the first of its inputs is made
    Most most{};          // in a stage that has them all
  };
  // Stages that begin at this layer or behind it, with no producer of a tensor that bypasses layers
  // between.
  struct Beginning {
    int first = 0;
    int bound = 0;              // of its front edge
    Runs runs{};                // of the layers first + 1 ... bound - 1, wherever the stage ends
    std::vector<Edge> backs{};  // by end, from first + 2 on, as far as the two edges overlap
  };

  Most of_layer(int l, int first, int end) const;
  Most of_both_ends(int first, int end) const;
  std::vector<int> front_bounds() const;
  void add_beginning(int first, int bound);
  std::vector<Edge> backs(int first, int last_end) const;

  GradientBytes gradients_;
  std::vector<std::int64_t> kept_;
  std::vector<std::int64_t> parameters_;
  std::vector<bool> bypasses_;      // [layer]: some tensor of it bypasses a layer
  std::vector<bool> reads_afar_;    // [layer]: such a tensor
  std::vector<Edge> front_, back_;  // [first], [end]
  std::vector<Most> first_;         // [layer], at the beginning of a stage
  std::vector<Last> last_;          // [layer]
  std::vector<int> last_end_;       // [layer]: of the back edges that begin at it or before it
  std::vector<Beginning> beginnings_;
  std::vector<std::size_t> begins_like_;  // [first], in beginnings_
  Runs inside_;  // of all layers, as if no tensor came from or went elsewhere
};

}  // namespace hetpipe
