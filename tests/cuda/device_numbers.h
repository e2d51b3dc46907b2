// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/element.h"

// Numbers for tests on a GPU: drawn on the host, rounded to the device's element type there and
// back, so that a reference in double starts from the very numbers that the device has.
namespace hetpipe::cuda {

using Numbers = std::vector<double>;

inline double rounded(double value, ElementType type) {
  const auto narrow = static_cast<float>(value);
  return type == ElementType::bf16   ? static_cast<float>(Bf16(narrow))
         : type == ElementType::fp16 ? static_cast<float>(Fp16(narrow))
                                     : narrow;
}

// Small multiples of 1/4: all types hold them, and sums of their products stay exact in fp32.
inline Numbers coarse_numbers(std::int64_t count, std::uint32_t seed) {
  Numbers numbers(static_cast<std::size_t>(count));
  for (double& number : numbers) {
    seed = seed * 1664525u + 1013904223u;
    number = (static_cast<int>(seed >> 24) % 9 - 4) / 4.0;
  }
  return numbers;
}

// Device memory of exactly these elements; starts as NaN.
class DeviceNumbers {
 public:
  DeviceNumbers(std::size_t count, ElementType type) : count_(count), type_(type) {
    check(cudaMalloc(&memory_, bytes()), "taking memory for a test");
    check(cudaMemset(memory_, 0xff, bytes()), "poisoning memory for a test");
  }
  DeviceNumbers(const Numbers& numbers, ElementType type) : DeviceNumbers(numbers.size(), type) {
    std::vector<std::byte> host(bytes());
    for (std::size_t i = 0; i < count_; ++i) {
      const auto value = static_cast<float>(numbers[i]);
      if (type_ == ElementType::fp32) {
        std::memcpy(&host[4 * i], &value, 4);
      } else {
        const std::uint16_t bits = type_ == ElementType::bf16 ? Bf16(value).bits : Fp16(value).bits;
        std::memcpy(&host[2 * i], &bits, 2);
      }
    }
    check(cudaMemcpy(memory_, host.data(), bytes(), cudaMemcpyHostToDevice), "filling memory");
  }
  DeviceNumbers(const DeviceNumbers&) = delete;
  DeviceNumbers& operator=(const DeviceNumbers&) = delete;
  ~DeviceNumbers() { cudaFree(memory_); }

  void* get() const { return memory_; }
  float* fp32() const { return static_cast<float*>(memory_); }
  std::size_t bytes() const { return count_ * bytes_of(type_); }

  std::vector<std::byte> raw() const {
    std::vector<std::byte> host(bytes());
    check(cudaDeviceSynchronize(), "waiting for a test");
    check(cudaMemcpy(host.data(), memory_, bytes(), cudaMemcpyDeviceToHost), "reading memory");
    return host;
  }
  Numbers read() const {
    const std::vector<std::byte> host = raw();
    Numbers numbers(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      if (type_ == ElementType::fp32) {
        float value = 0;
        std::memcpy(&value, &host[4 * i], 4);
        numbers[i] = value;
      } else if (type_ == ElementType::bf16) {
        Bf16 value;
        std::memcpy(&value.bits, &host[2 * i], 2);
        numbers[i] = static_cast<float>(value);
      } else {
        Fp16 value;
        std::memcpy(&value.bits, &host[2 * i], 2);
        numbers[i] = static_cast<float>(value);
      }
    }
    return numbers;
  }

 private:
  std::size_t count_;
  ElementType type_;
  void* memory_ = nullptr;
};

}  // namespace hetpipe::cuda
