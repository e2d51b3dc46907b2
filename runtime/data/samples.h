// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "base/sample_type.h"

namespace hetpipe {

// Memory for so many bytes, aligned as new does; it lives as long as a copy of the pointer. Called
// by whichever thread assembles.
using SampleMemory = std::function<std::shared_ptr<std::byte[]>(std::size_t bytes)>;

inline std::shared_ptr<std::byte[]> ordinary_memory(std::size_t bytes) {
  return std::shared_ptr<std::byte[]>(new std::byte[bytes]);
}

// The samples of a batch, one after another, in the type in which the data set stores them. Copies
// share the memory.
class Samples {
 public:
  Samples() = default;
  Samples(SampleType type, std::size_t values, const SampleMemory& memory,
          const PixelScale& scale = {})
      : type_(type),
        scale_(scale),
        values_(values),
        memory_(values == 0 ? nullptr : memory(bytes())) {}

  SampleType type() const { return type_; }
  const PixelScale& scale() const { return scale_; }
  bool empty() const { return values_ == 0; }
  std::size_t values() const { return values_; }
  std::size_t bytes() const { return values_ * bytes_of(type_); }
  std::byte* data() const { return memory_.get(); }
  // T: std::uint8_t, std::uint16_t or float, as type() says.
  template <class T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(memory_.get()), values_};
  }
  // For whoever reads it longer than the batch lives.
  const std::shared_ptr<std::byte[]>& memory() const { return memory_; }

 private:
  SampleType type_ = SampleType::floats;
  PixelScale scale_;
  std::size_t values_ = 0;
  std::shared_ptr<std::byte[]> memory_;
};

}  // namespace hetpipe
