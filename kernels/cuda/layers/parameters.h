// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/own/convert.h"

namespace hetpipe::cuda {

// Parameters, fp32, as elements of T: a copy for one call, or what is there where T is float. Under
// weight stashing every call may bring another version, so nothing is kept.
template <class T>
class Rounded {
 public:
  Rounded(const LayerContext& context, Stream& stream, const float* values, std::int64_t count)
      : copy_(context, stream, count) {
    convert(values, copy_.get(), count, handle(stream));
  }
  const T* get() const { return copy_.get(); }

 private:
  Workspace<T> copy_;
};

template <>
class Rounded<float> {
 public:
  Rounded(const LayerContext&, Stream&, const float* values, std::int64_t) : values_(values) {}
  const float* get() const { return values_; }

 private:
  const float* values_;
};

}  // namespace hetpipe::cuda
