// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include <dnnl.hpp>

#include "kernels/buffer.h"
#include "kernels/device.h"
#include "kernels/host_device.h"

// The door to oneDNN for the sources of this folder; nothing outside includes it.
namespace hetpipe {

// What the CPU device's kernels share.
struct CpuContext {
  Device& device;
  int threads;
  dnnl::engine engine;
  dnnl::stream stream;
};

using Arguments = std::unordered_map<int, dnnl::memory>;

// oneDNN's failures as SystemError, saying during what.
[[noreturn]] void rethrow(const dnnl::error& error, const std::string& during);

// A primitive, made once per kernel, whose scratchpad is taken from the device for each run, so
// that the account of memory is true.
class Primitive {
 public:
  Primitive() = default;
  template <class PrimitiveDescription>
  explicit Primitive(const PrimitiveDescription& description)
      : primitive_(description.get()), scratchpad_(description.scratchpad_desc()) {}

  void run(CpuContext& context, Stream& stream, Arguments arguments) const;

 private:
  dnnl::primitive primitive_;
  dnnl::memory::desc scratchpad_;
};

// Attributes of every primitive: the scratchpad is ours.
dnnl::primitive_attr attributes();

// A view of float memory; const is cast away because oneDNN's handles are not const, and only
// arguments it names as outputs are written.
dnnl::memory view(const CpuContext& context, const dnnl::memory::desc& desc, const void* data);

dnnl::memory::desc plain(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag);
dnnl::memory::desc nhwc(const Shape& shape);

// Copies between two layouts of one tensor; nothing to do when they are the same.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const CpuContext& context, const dnnl::memory::desc& from, const dnnl::memory::desc& to);
  bool needed() const { return needed_; }
  void run(CpuContext& context, Stream& stream, const dnnl::memory& from, dnnl::memory& to) const;

 private:
  bool needed_ = false;
  Primitive primitive_;
};

// C (rows, columns) = A (rows, inner) · B (inner, columns) + beta * C, row-major; `a_step` and so
// on are floats from row to row. A transposed matrix lies as (inner, rows) or (columns, inner).
// Inside a parallel loop it runs in the calling thread alone.
struct Matrix {
  const float* data = nullptr;
  std::int64_t step = 0;
  bool transposed = false;
};
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t inner, const Matrix& a,
              const Matrix& b, float beta, float* c, std::int64_t c_step, float alpha = 1);

std::unique_ptr<LayerKernel> make_convolution(CpuContext& context, const Convolution& spec,
                                              const Shape& in);
std::unique_ptr<LayerKernel> make_transposed_convolution(CpuContext& context,
                                                         const TransposedConvolution& spec,
                                                         const Shape& in);
std::unique_ptr<LayerKernel> make_linear(CpuContext& context, const Linear& spec, const Shape& in);
// A loop, or oneDNN's, as the layer's row says (kernels/elementwise.h).
std::unique_ptr<LayerKernel> make_elementwise(CpuContext& context, const ElementwiseSpec& spec,
                                              const Shape& in);
std::unique_ptr<LayerKernel> make_attention(CpuContext& context, const SelfAttention& spec,
                                            const Shape& in);
// The layers of kernels/algebra.h.
std::unique_ptr<LayerKernel> make_algebra(CpuContext& context, const LayerSpec& spec,
                                          const std::vector<Shape>& inputs, std::uint64_t key);
std::unique_ptr<LayerKernel> make_recurrent(CpuContext& context, const Recurrent& spec,
                                            const Shape& in);
std::unique_ptr<LayerKernel> make_lstm(CpuContext& context, const Lstm& spec, const Shape& in);

}  // namespace hetpipe
