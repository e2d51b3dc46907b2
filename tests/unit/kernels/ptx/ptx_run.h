// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/cuda/ptx/kernels.h"
#include "tests/cuda/ptx/parser.h"

// Runs PTX that a test writes. Its arrays are all that kernels may reach.
namespace hetpipe::cuda::ptx::test {

inline std::vector<Region>& allocations() {
  static std::vector<Region> all;
  return all;
}
inline std::optional<Region> find(std::uint64_t address) {
  for (const Region& region : allocations()) {
    if (address >= region.first && address - region.first < region.bytes) return region;
  }
  return std::nullopt;
}

template <class T>
class Array {
 public:
  explicit Array(std::vector<T> values) : values_(std::move(values)) {
    allocations().push_back({address(), values_.size() * sizeof(T)});
  }
  explicit Array(std::size_t count) : Array(std::vector<T>(count)) {}
  ~Array() {
    std::erase_if(allocations(), [&](const Region& region) { return region.first == address(); });
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(values_.data()); }
  const std::vector<T>& values() const { return values_; }
  T operator[](std::size_t i) const { return values_[i]; }

 private:
  std::vector<T> values_;
};

// An entry `kernel` of parameters p0, p1, ... of 64 bits, with registers of every kind: %p, %rs,
// %r, %rd, %f, %fd, each <64>. `variables` stand before the body.
inline std::string entry(const std::string& body, int parameters = 1,
                         const std::string& variables = "") {
  std::string list;
  for (int i = 0; i < parameters; ++i) {
    list += (i > 0 ? ",\n" : "") + std::string(".param .u64 p") + std::to_string(i);
  }
  return ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry kernel(" + list +
         ")\n{\n.reg .pred %p<64>;\n.reg .b16 %rs<64>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<64>;\n"
         ".reg .f32 %f<64>;\n.reg .f64 %fd<64>;\n" +
         variables + body + "\nret;\n}\n";
}

inline void run(const std::string& text, const Shape& shape,
                const std::vector<std::uint64_t>& arguments, Order order = Order::ascending) {
  Kernels kernels(&find);
  kernels.add(parse_module("test.ptx", text));
  std::vector<std::span<const std::byte>> bytes;
  for (const std::uint64_t& argument : arguments)
    bytes.push_back(std::as_bytes(std::span(&argument, 1)));
  kernels.launch("kernel", shape, bytes, order);
}
inline void run(const std::string& text, unsigned threads,
                const std::vector<std::uint64_t>& arguments, Order order = Order::ascending) {
  run(text, Shape{{}, {threads}}, arguments, order);
}

// The kernel fails with these words in its message.
inline void expect_failure_in(Order order, const std::string& text, const Shape& shape,
                              const std::vector<std::uint64_t>& arguments, const char* words) {
  EXPECT_THAT([&] { run(text, shape, arguments, order); },
              testing::ThrowsMessage<PtxFailure>(testing::HasSubstr(words)))
      << text;
}
// In both orders of warps.
inline void expect_failure(const std::string& text, const Shape& shape,
                           const std::vector<std::uint64_t>& arguments, const char* words) {
  expect_failure_in(Order::ascending, text, shape, arguments, words);
  expect_failure_in(Order::descending, text, shape, arguments, words);
}
inline void expect_failure(const std::string& text, unsigned threads,
                           const std::vector<std::uint64_t>& arguments, const char* words) {
  expect_failure(text, Shape{{}, {threads}}, arguments, words);
}

}  // namespace hetpipe::cuda::ptx::test
