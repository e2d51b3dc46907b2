// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "tests/cuda/ptx/program.h"
#include "tests/cuda/ptx/races.h"

// Global memory, which is the host's: where kernels may reach, and who has touched what.
namespace hetpipe::cuda::ptx {

// The live allocation that holds an address.
using FindAllocation = std::optional<Region> (*)(std::uint64_t address);

class GlobalMemory {
 public:
  explicit GlobalMemory(FindAllocation find) : find_(find) {}

  void begin_launch(const Program& program);
  // Whether [address, address + bytes) lies in one allocation.
  bool holds(std::uint64_t address, std::uint64_t bytes);
  // Of the bytes from `address` to the end of its page of 4 KiB.
  Shadow* shadow_of(std::uint64_t address);

 private:
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::size_t kMostPages = 8192;  // of 64 KiB each
  struct Page {
    std::array<Shadow, kPage> bytes;
  };
  struct Cached {
    std::uint64_t number = ~std::uint64_t{0};
    Page* page = nullptr;
  };

  FindAllocation find_;
  const Program* program_ = nullptr;
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
  std::array<Cached, 64> cached_{};
  std::array<Region, 64> regions_{};
};

}  // namespace hetpipe::cuda::ptx
