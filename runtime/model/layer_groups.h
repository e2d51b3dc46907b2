// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/device.h"
#include "runtime/model/model.h"

namespace hetpipe {

// Layers [first, end) of a model that a device computes at once: one layer, or a chain that it
// fuses. Outputs between them do not exist.
struct LayerGroup {
  int first = 0;
  int end = 0;
  std::vector<int> inputs;             // producers of outside_inputs(), or kSamples
  std::vector<bool> read_in_backward;  // of each input: whether backward needs it
  LayerShapes shapes;                  // as the kernel has them
  std::unique_ptr<LayerKernel> kernel;
  // The input whose memory forward writes the output to: the kernel can, the input was made in the
  // same stage, and nothing else reads it, no layer and no backward. Such layers are bound
  // by memory bandwidth, so memory that is touched once less saves time.
  std::optional<std::size_t> in_place;

  int last() const { return end - 1; }  // the output is this layer's
};

// Layers [first, end) of `model`, a stage, in groups for passes of so many samples. From the first
// layer on, the longest chain that `device` fuses makes a group: consecutive layers, each of which
// is read only by the next. `seed` keys random draws.
std::vector<LayerGroup> make_groups(const Model& model, int first, int end, std::int64_t samples,
                                    std::uint64_t seed, Device& device);

}  // namespace hetpipe
