// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "kernels/cuda/handles.h"

// Timing candidates on the GPU in use: its own stream, its own memory.
namespace hetpipe::cuda {

constexpr int kSmallNumbers = 0x3c;  // as every byte: small normal numbers of all types
constexpr int kNaNs = 0xff;          // and NaNs of all

// Device memory that is given back at the end, every byte the same. Of small numbers a kernel runs
// as on data, and no sum overflows.
class Scratch {
 public:
  // Null blocks, and no exception, where the card has no room for all: `complete` is then false.
  explicit Scratch(const std::vector<std::size_t>& bytes, int byte = kSmallNumbers);

  bool complete() const { return complete_; }
  void* block(std::size_t i) const { return blocks_[i].get(); }
  cudaStream_t stream() const { return stream_.get(); }
  // The first bytes of a block, after what its stream has to do.
  void read(void* to, std::size_t i, std::size_t bytes) const;

 private:
  UniqueStream stream_;
  std::vector<UniqueMemory> blocks_;
  bool complete_ = true;
};

constexpr int kPlanRuns = 5;  // of a plan, to tell which is fastest

// Median time of `runs` calls of work(stream), after one that is not counted.
double median_seconds(int runs, const std::function<void(cudaStream_t)>& work);

}  // namespace hetpipe::cuda
