// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "partitioner/profile/profile.h"

// What backwards work on.
namespace hetpipe {

// Gradients of one micro-batch that are there while the backward of a layer works, and what its
// kernels take beside them: all of it where the profile says what they take, else as much as is
// known.
class GradientBytes {
 public:
  GradientBytes(const Profile& profile, const LayerCosts& costs);
  // For stages inside of [first, end) alone, which takes less to make.
  GradientBytes(const Profile& profile, const LayerCosts& costs, int first, int end);

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
  bool measured() const { return !scratch_.empty(); }

  struct Tensor {
    int producer = 0;
    std::int64_t bytes = 0;
    int next_reader = 0;  // of those that bypass a layer
  };
  std::span<const Tensor> passing(int l) const { return passing_.of(l); }
  std::span<const Tensor> inputs(int l) const { return inputs_.of(l); }
  int layers() const { return static_cast<int>(output_.size()); }

 private:
  struct ByLayer {
    std::vector<Tensor> tensors{};
    std::vector<std::size_t> begin{0};  // [layers + 1]
    std::span<const Tensor> of(int l) const {
      const auto at = static_cast<std::size_t>(l);
      return std::span(tensors).subspan(begin[at], begin[at + 1] - begin[at]);
    }
  };

  std::vector<std::int64_t> output_;
  std::vector<std::int64_t> scratch_;  // empty: not known
  std::vector<bool> apart_;            // ProfileLayer::gradients_apart
  std::vector<bool> chained_;          // alone reads the layer before it, and is read by the next
  ByLayer inputs_;
  ByLayer passing_;  // that bypass it
};

}  // namespace hetpipe
