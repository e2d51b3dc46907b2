// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "kernels/device.h"

// What devices whose memory is this process's share: streams that run inline, plain copies.
namespace hetpipe {

std::unique_ptr<Stream> make_inline_stream();

// In host memory, each element to the nearest of the other type.
void convert_elements(std::byte* to, ElementType to_type, const std::byte* from,
                      ElementType from_type, std::int64_t count);

// In host memory, as Device::unpack.
void unpack_elements(std::byte* to, ElementType to_type, const std::byte* from,
                     SampleType from_type, std::int64_t count, const PixelScale& scale);

class HostDevice : public Device {
 public:
  explicit HostDevice(std::string kind) : kind_(std::move(kind)) {}

  const std::string& kind() const override { return kind_; }
  std::unique_ptr<Stream> make_stream() override { return make_inline_stream(); }
  MemoryAccount& memory() override { return account_; }
  void copy(Stream&, std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }
  std::byte* allocate_host(std::size_t bytes) override { return new std::byte[bytes]; }
  void release_host(std::byte* memory, std::size_t) noexcept override { delete[] memory; }
  void accumulate(Stream& stream, std::byte* y, const std::byte* x, std::int64_t count) override {
    add(stream, reinterpret_cast<float*>(y), reinterpret_cast<const float*>(x), count);
  }
  void convert(Stream&, std::byte* to, ElementType to_type, const std::byte* from,
               ElementType from_type, std::int64_t count) override {
    convert_elements(to, to_type, from, from_type, count);
  }
  void unpack(Stream&, std::byte* to, ElementType to_type, const std::byte* from,
              SampleType from_type, std::int64_t count, const PixelScale& scale) override {
    unpack_elements(to, to_type, from, from_type, count, scale);
  }

 private:
  std::string kind_;
  MemoryAccount account_;
};

// Activations of host devices are floats.
inline const float* floats(const std::byte* activations) {
  return reinterpret_cast<const float*>(activations);
}
inline float* floats(std::byte* activations) { return reinterpret_cast<float*>(activations); }
inline const std::byte* activations(const float* values) {
  return reinterpret_cast<const std::byte*>(values);
}
inline std::byte* activations(float* values) { return reinterpret_cast<std::byte*>(values); }

// Gradients beyond the span, like null ones, are not wanted; a layer has no parameters beyond.
inline float* wanted(std::span<float* const> gradients, std::size_t i) {
  return i < gradients.size() ? gradients[i] : nullptr;
}
inline const float* wanted(std::span<const float* const> parameters, std::size_t i) {
  return i < parameters.size() ? parameters[i] : nullptr;
}
inline float* wanted(std::span<std::byte* const> gradients, std::size_t i) {
  return i < gradients.size() ? floats(gradients[i]) : nullptr;
}

// The scale and shift, or their gradients, of a layer that may have one, both or none; null where
// it has not.
template <class T>
T* scale_of(const LayerNorm& l, std::span<T* const> parameters) {
  return l.scaled ? wanted(parameters, 0) : nullptr;
}
template <class T>
T* shift_of(const LayerNorm& l, std::span<T* const> parameters) {
  return l.shifted ? wanted(parameters, l.scaled ? 1 : 0) : nullptr;
}

}  // namespace hetpipe
