// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "tests/unit/kernels/wrapped_device.h"

namespace hetpipe::test {

// The reference device, which fuses the chains that `fuses` names: its kernels one after another,
// with the outputs in between in their stash, and so the bits of layers one by one.
class FusingDevice final : public WrappedDevice {
 public:
  using Fuses = std::function<bool(std::span<const ChainedLayer>)>;
  explicit FusingDevice(Fuses fuses) : fuses_(std::move(fuses)) {}

  std::unique_ptr<LayerKernel> fuse(std::span<const ChainedLayer> chain) override;
  int fused() const { return fused_; }  // kernels made so far

 private:
  Fuses fuses_;
  int fused_ = 0;
};

inline bool every_chain(std::span<const ChainedLayer>) { return true; }

}  // namespace hetpipe::test
