// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/ids.h"

namespace hetpipe {

// What the servers make of the pushes of a wave (or round), where they do more than add them. One
// shard's; its state lies beside the label that it belongs to.
class LabelStep {
 public:
  using State = std::vector<std::vector<float>>;  // by slot: a float for each parameter

  virtual ~LabelStep() = default;
  // Whether it takes the sum of the changes by itself, or what the weights would be with it.
  virtual bool takes_changes() const = 0;
  // `next`: that sum; then the weights behind the wave. `before`: those in front of it. `state`:
  // of those, then of these. `between` is called now and then.
  virtual void make(Wave wave, std::span<const float> before, std::span<float> next, State& state,
                    const std::function<void()>& between) = 0;
};

}  // namespace hetpipe
