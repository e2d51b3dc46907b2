// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/pointwise.h"

#include "kernels/cuda/own/pack.h"
#include "kernels/cuda/own/reduce.h"
#include "kernels/pointwise_operators.h"

namespace hetpipe::cuda {
namespace {

constexpr int kTeam = 128;  // threads that share one long list

template <class T>
struct Task {
  PointwiseProgram program;
  PointwiseData data;
  const T* dy = nullptr;
  const T* y = nullptr;

  HETPIPE_DEVICE float operand(int o, std::int64_t sample, const std::int64_t* index) const {
    const PointwiseOperand& view = program.operands[o];
    std::int64_t place = sample * view.by_sample + view.offset, entry = 0;
    for (int j = 0; j < program.loop_count; ++j) {
      place += index[j] * view.strides[j];
      if (view.has_table) entry += index[j] * view.table_strides[j];
    }
    if (view.has_table) place += data.tables[o][entry];
    return view.floats ? static_cast<const float*>(data.operands[o])[place]
                       : static_cast<float>(static_cast<const T*>(data.operands[o])[place]);
  }

  // values[i] = step i at an element of a sample.
  HETPIPE_DEVICE void evaluate(std::int64_t sample, std::int64_t element, float* values) const {
    std::int64_t index[kMostLoops];
    std::int64_t rest = element;
    for (int j = program.loop_count - 1; j >= 0; --j) {
      index[j] = rest % program.extents[j];
      rest /= program.extents[j];
    }
    for (int i = 0; i < program.step_count; ++i) {
      const PointwiseStep step = program.steps[i];
      if (step.row == PointwiseStep::kNumber) {
        values[i] = step.number;
      } else if (step.row == PointwiseStep::kVariable) {
        const int v = step.arguments[0];
        const std::int64_t at = sample * program.elements + element;
        values[i] = v < program.operand_count    ? operand(v, sample, index)
                    : v == program.operand_count ? static_cast<float>(dy[at])
                                                 : static_cast<float>(y[at]);
      } else {
        const float a = values[step.arguments[0]], b = values[step.arguments[1]];
        const float c = values[step.arguments[2]];
        values[i] = pointwise::visit_row(step.row, [&]<std::int16_t row>() {
          return pointwise::Operator<row>::template apply<float>(a, b, c);
        });
      }
    }
  }
};

template <class T>
struct PointwiseForward {
  Task<T> task;
  T* out;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    float values[kMostSteps];
    task.evaluate(i / task.program.elements, i % task.program.elements, values);
    out[i] = T(values[task.program.step_count - 1]);
  }
};

// What one tensor's elements get: readers [first, last) of element e in samples [n, n + samples).
template <class T>
struct PointwiseGather {
  Task<T> task;
  const std::int16_t* results;
  PointwiseReaders readers;

  HETPIPE_DEVICE std::int64_t count(std::int64_t element) const {
    return readers.starts == nullptr ? 1 : readers.starts[element + 1] - readers.starts[element];
  }
  HETPIPE_DEVICE float term(std::int64_t sample, std::int64_t element, std::int64_t k) const {
    std::int64_t place = element;
    int operand = readers.alone;
    if (readers.starts != nullptr) {
      const std::int32_t entry = readers.entries[readers.starts[element] + k];
      place = entry / task.program.operand_count;
      operand = static_cast<int>(entry % task.program.operand_count);
    }
    if (results[operand] < 0) return 0;
    float values[kMostSteps];
    task.evaluate(sample, place, values);
    return values[results[operand]];
  }
  // Every step-th term from `first` on, of `samples` samples.
  HETPIPE_DEVICE CompensatedSum sum(std::int64_t sample, std::int64_t samples, std::int64_t element,
                                    std::int64_t first, std::int64_t step) const {
    CompensatedSum sum;
    const std::int64_t terms = count(element);
    for (std::int64_t k = first; k < samples * terms; k += step) {
      sum.add(term(sample + k / terms, element, k % terms));
    }
    return sum;
  }
};

// An input's element per thread, or per block.
template <class T, class Out>
struct PointwiseGatherEach {
  PointwiseGather<T> gather;
  std::int64_t samples;  // that an element sums over
  Out* out;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t elements = gather.readers.elements;
    out[i] = Out(gather.sum(i / elements, samples, i % elements, 0, 1).sum);
  }
};

template <class T, class Out>
HETPIPE_KERNEL void gather_kernel(PointwiseGather<T> gather, std::int64_t samples, Out* out,
                                  std::int64_t count) {
  const std::int64_t elements = gather.readers.elements;
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    float part[1] = {gather.sum(i / elements, samples, i % elements, threadIdx.x, kTeam).sum};
    team_reduce<kTeam, 1>(part, Plus{});
    if (threadIdx.x == 0) out[i] = Out(part[0]);
    __syncthreads();
  }
}

template <class T, class Out>
void gather_gradient(const Task<T>& task, const std::int16_t* results,
                     const PointwiseReaders& readers, std::int64_t samples, std::int64_t count,
                     Out* out, On on) {
  if (count == 0) return;
  const PointwiseGather<T> gather{task, results, readers};
  if (readers.many) {
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(count, kMostBlocks));
    launch(gather_kernel<T, Out>, blocks, kTeam, on, gather, samples, out, count);
  } else {
    each<1>(PointwiseGatherEach<T, Out>{gather, samples, out}, count, on);
  }
}

}  // namespace

template <class T>
void pointwise_forward(const PointwiseProgram& program, const PointwiseData& data,
                       std::int64_t samples, T* y, On on) {
  each<1>(PointwiseForward<T>{{program, data}, y}, samples * program.elements, on);
}

template <class T>
void pointwise_input_gradient(const PointwiseProgram& program, const PointwiseData& data,
                              const std::int16_t* results, const PointwiseReaders& readers,
                              const T* dy, const T* y, std::int64_t samples, T* dx, On on) {
  gather_gradient(Task<T>{program, data, dy, y}, results, readers, 1, samples * readers.elements,
                  dx, on);
}
template <class T>
void pointwise_parameter_gradient(const PointwiseProgram& program, const PointwiseData& data,
                                  const std::int16_t* results, const PointwiseReaders& readers,
                                  const T* dy, const T* y, std::int64_t samples, float* gradient,
                                  On on) {
  gather_gradient(Task<T>{program, data, dy, y}, results, readers, samples, readers.elements,
                  gradient, on);
}

#define HETPIPE_POINTWISE_KERNELS(T)                                                               \
  template void pointwise_forward(const PointwiseProgram&, const PointwiseData&, std::int64_t, T*, \
                                  On);                                                             \
  template void pointwise_input_gradient(const PointwiseProgram&, const PointwiseData&,            \
                                         const std::int16_t*, const PointwiseReaders&, const T*,   \
                                         const T*, std::int64_t, T*, On);                          \
  template void pointwise_parameter_gradient(const PointwiseProgram&, const PointwiseData&,        \
                                             const std::int16_t*, const PointwiseReaders&,         \
                                             const T*, const T*, std::int64_t, float*, On);
HETPIPE_POINTWISE_KERNELS(float)
HETPIPE_POINTWISE_KERNELS(Bf16)
HETPIPE_POINTWISE_KERNELS(Fp16)

}  // namespace hetpipe::cuda
