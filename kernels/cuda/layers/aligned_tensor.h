// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/layers/layers.h"

namespace hetpipe::cuda {

inline constexpr std::uintptr_t kTensorAlignment = 16;  // bytes, that plans rely on
inline bool is_aligned(const void* tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor) % kTensorAlignment == 0;
}

// A tensor inside a packed message, or a parameter behind one of an odd size, may start anywhere:
// it is then copied to a place that plans can read or write.
class AlignedTensor {
 public:
  AlignedTensor(const LayerContext& context, Stream& stream, const void* tensor, std::size_t bytes)
      : there_(const_cast<void*>(tensor)), bytes_(bytes) {  // NOLINT: written where asked for
    if (!is_aligned(tensor)) copy_ = Workspace<>(context, stream, static_cast<std::int64_t>(bytes));
  }
  const void* read(Stream& stream) const {
    if (copy_.get() == nullptr) return there_;
    check(cudaMemcpyAsync(copy_.get(), there_, bytes_, cudaMemcpyDeviceToDevice, handle(stream)),
          "copying a tensor to an aligned place");
    return copy_.get();
  }
  void* write() const { return copy_.get() == nullptr ? there_ : copy_.get(); }
  void written(Stream& stream) const {
    if (copy_.get() == nullptr) return;
    check(cudaMemcpyAsync(there_, copy_.get(), bytes_, cudaMemcpyDeviceToDevice, handle(stream)),
          "copying a tensor from an aligned place");
  }

 private:
  void* there_;
  std::size_t bytes_;
  Workspace<> copy_;
};

}  // namespace hetpipe::cuda
