// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/layers/layers.h"

namespace hetpipe::cuda {

// Arrays that go to the device in one copy.
class PackedArrays {
 public:
  template <class X>
  std::size_t add(const X* values, std::size_t count) {
    bytes_.resize((bytes_.size() + 15) / 16 * 16);
    const std::size_t at = bytes_.size();
    bytes_.resize(at + count * sizeof(X));
    if (count > 0) std::memcpy(bytes_.data() + at, values, count * sizeof(X));
    return at;
  }
  template <class X>
  std::size_t add(const std::vector<X>& values) {
    return add(values.data(), values.size());
  }
  // Read before the call returns: the host's memory is pageable.
  Workspace<> upload(const LayerContext& context, Stream& stream) const {
    Workspace<> there(context, stream, static_cast<std::int64_t>(bytes_.size()));
    if (bytes_.empty()) return there;
    check(cudaMemcpyAsync(there.get(), bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice,
                          handle(stream)),
          "copying a layer's tables");
    return there;
  }

 private:
  std::vector<std::byte> bytes_;
};
// Arrays that never change, in device memory for as long as their layer is there; any stream may
// read them.
class KeptArrays {
 public:
  KeptArrays() = default;
  KeptArrays(const LayerContext& context, const PackedArrays& arrays) : device_(&context.device) {
    there_ = arrays.upload(context, context.tables);
    context.tables.synchronize();
  }
  KeptArrays(KeptArrays&& other) noexcept { swap(other); }
  KeptArrays& operator=(KeptArrays&& other) noexcept {
    KeptArrays moved(std::move(other));
    swap(moved);
    return *this;
  }
  KeptArrays(const KeptArrays&) = delete;
  KeptArrays& operator=(const KeptArrays&) = delete;
  // Streams that read them may not be done.
  ~KeptArrays() {
    if (there_.get() == nullptr) return;
    use_gpu(index_of(*device_));
    cudaDeviceSynchronize();
  }

  // Whether they have been uploaded, be they empty.
  explicit operator bool() const { return device_ != nullptr; }
  template <class X>
  const X* at(std::size_t offset) const {
    return reinterpret_cast<const X*>(there_.get() + offset);
  }

 private:
  void swap(KeptArrays& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(there_, other.there_);
  }

  const Device* device_ = nullptr;
  Workspace<> there_;
};

}  // namespace hetpipe::cuda
