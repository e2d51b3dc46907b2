// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <vector>

#include "kernels/cuda/check.h"
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
    check(cudaMemcpyAsync(there.get(), bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice,
                          handle(stream)),
          "copying an expression");
    return there;
  }

 private:
  std::vector<std::byte> bytes_;
};
template <class X>
const X* at(const Workspace<>& there, std::size_t offset) {
  return reinterpret_cast<const X*>(there.get() + offset);
}

}  // namespace hetpipe::cuda
