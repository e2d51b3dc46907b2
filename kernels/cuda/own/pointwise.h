// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Pointwise layers of kernels/algebra.h: one kernel that works an expression out step by step, and
// one that gathers the gradient of a tensor from all places that read it, in a fixed order. T is
// the type of activations: float, Bf16 or Fp16; arithmetic is in fp32. What the views point at is
// device memory; own/pointwise_plan.h makes it.
namespace hetpipe::cuda {

inline constexpr int kMostLoops = 8;
inline constexpr int kMostOperands = 14;
inline constexpr int kMostSteps = 64;

struct PointwiseStep {
  // A row of the table of operators, or what else the step is.
  static constexpr std::int16_t kVariable = -1, kNumber = -2;
  std::int16_t row = kVariable;
  std::int16_t arguments[3] = {0, 0, 0};  // of a variable, the first is its number
  float number = 0;
};

struct PointwiseOperand {
  bool floats = false;  // a parameter or constant, whatever T
  bool has_table = false;
  std::int64_t by_sample = 0;
  std::int64_t offset = 0;
  std::int64_t strides[kMostLoops] = {};
  std::int64_t table_strides[kMostLoops] = {};
};

struct PointwiseProgram {
  const PointwiseStep* steps = nullptr;
  int step_count = 0;
  const PointwiseOperand* operands = nullptr;
  int operand_count = 0;
  int loop_count = 0;
  std::int64_t extents[kMostLoops] = {};
  std::int64_t elements = 0;  // of a sample
};

// Of a call: where each operand and its table lie.
struct PointwiseData {
  const void* operands[kMostOperands] = {};
  const std::int32_t* tables[kMostOperands] = {};
};

template <class T>
void pointwise_forward(const PointwiseProgram& program, const PointwiseData& data,
                       std::int64_t samples, T* y, On on);

// Who reads an element of a tensor: entries[starts[e] ... starts[e + 1]) are (place in the loops) *
// operand_count + operand. Null: the one operand `alone` reads element e at place e.
struct PointwiseReaders {
  const std::int32_t* starts = nullptr;
  const std::int32_t* entries = nullptr;
  std::int64_t elements = 0;  // of the tensor; an input's, of a sample
  int alone = -1;
  bool many = false;  // long lists: a block for each element
};

// The gradient of one tensor. `program` is the derivative's, whose variables after the operands are
// dy and y; results[o] is the step that is operand o's gradient (device memory), -1: it has none.
// An input's gradient is of T, a parameter's is summed over the samples.
template <class T>
void pointwise_input_gradient(const PointwiseProgram& program, const PointwiseData& data,
                              const std::int16_t* results, const PointwiseReaders& readers,
                              const T* dy, const T* y, std::int64_t samples, T* dx, On on);
template <class T>
void pointwise_parameter_gradient(const PointwiseProgram& program, const PointwiseData& data,
                                  const std::int16_t* results, const PointwiseReaders& readers,
                                  const T* dy, const T* y, std::int64_t samples, float* gradient,
                                  On on);

}  // namespace hetpipe::cuda
