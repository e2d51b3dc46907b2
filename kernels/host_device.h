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

class HostDevice : public Device {
 public:
  explicit HostDevice(std::string kind) : kind_(std::move(kind)) {}

  const std::string& kind() const override { return kind_; }
  std::unique_ptr<Stream> make_stream() override { return make_inline_stream(); }
  MemoryAccount& memory() override { return account_; }
  void copy(Stream&, std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }

 private:
  std::string kind_;
  MemoryAccount account_;
};

// Gradients beyond the span, like null ones, are those nobody wants.
inline float* wanted(std::span<float* const> gradients, std::size_t i) {
  return i < gradients.size() ? gradients[i] : nullptr;
}

}  // namespace hetpipe
