// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/cpu_device.h"
#include "kernels/joint_loss.h"

#include "base/error.h"
#include "base/text.h"
#include "kernels/clip_step.h"
#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/memory_pool.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/threads.h"

namespace hetpipe {
namespace {

// A oneDNN layer within the device's number of threads, and oneDNN's failures in our words.
class GuardedKernel final : public LayerKernel {
 public:
  GuardedKernel(std::unique_ptr<LayerKernel> kernel, int threads, std::string name)
      : kernel_(std::move(kernel)), threads_(threads), name_(std::move(name)) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    const ThreadScope scope(threads_);
    try {
      kernel_->forward(stream, a);
    } catch (const dnnl::error& error) {
      rethrow(error, "in the forward pass of " + name_);
    }
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    const ThreadScope scope(threads_);
    try {
      kernel_->backward(stream, a);
    } catch (const dnnl::error& error) {
      rethrow(error, "in the backward pass of " + name_);
    }
  }

 private:
  std::unique_ptr<LayerKernel> kernel_;
  int threads_;
  std::string name_;
};

class CpuDevice final : public HostDevice {
 public:
  explicit CpuDevice(int threads)
      : HostDevice("cpu"),
        threads_(threads),
        engine_(dnnl::engine::kind::cpu, 0),
        context_{*this, threads, engine_, dnnl::stream(engine_)} {}

  std::string description() const override {
    return format("CPU device (%s), %d thread%s", onednn_version().c_str(), threads_,
                  threads_ == 1 ? "" : "s");
  }

  std::byte* allocate(Stream&, std::size_t bytes, MemoryKind kind) override {
    memory().take(bytes, kind);
    std::byte* block = pool_.take(bytes);
    if (block == nullptr) {
      memory().give_back(bytes, kind);
      throw OutOfMemory(format("CPU device: no %s of memory left for %s. In use:\n%s",
                               format_bytes(static_cast<double>(bytes)).c_str(), to_string(kind),
                               memory().ledger().c_str()));
    }
    return block;
  }
  void release(Stream&, std::byte* block, std::size_t bytes, MemoryKind kind) noexcept override {
    pool_.give_back(block, bytes);
    memory().give_back(bytes, kind);
  }

  std::unique_ptr<LayerKernel> make_kernel(const LayerSpec& spec, const std::vector<Shape>& inputs,
                                           std::uint64_t key) override {
    infer_shapes(spec, inputs);  // refuses what does not fit together
    const ThreadScope scope(threads_);
    const std::string name = to_string(spec) + " on " + to_string(inputs[0]);
    if (const auto* joint = std::get_if<JointLoss>(&spec)) {
      return make_joint_loss(*this, *joint, inputs);
    }
    if (std::holds_alternative<Concat>(spec)) return make_concat(inputs, threads_);
    try {
      if (of_algebra(spec)) return guarded(make_algebra(context_, spec, inputs, key), name);
      return std::visit([&](const auto& layer) { return make(layer, inputs[0], key, name); }, spec);
    } catch (const dnnl::error& error) {
      rethrow(error, "while " + name + " was made");
    }
  }

  void fill(Stream&, float* x, float value, std::int64_t count) override {
    pieces(count, [&](std::int64_t i, std::int64_t n) { loops::fill(x + i, value, n); });
  }
  void add(Stream&, float* y, const float* x, std::int64_t count) override {
    pieces(count, [&](std::int64_t i, std::int64_t n) { loops::add(y + i, x + i, n); });
  }
  void sum(Stream&, float* z, const float* x, const float* y, std::int64_t count) override {
    pieces(count, [&](std::int64_t i, std::int64_t n) { loops::sum(z + i, x + i, y + i, n); });
  }
  void scale(Stream&, float* y, float factor, std::int64_t count) override {
    pieces(count, [&](std::int64_t i, std::int64_t n) { loops::scale(y + i, factor, n); });
  }
  void sum_of_squares(Stream&, double* sum, const float* x, std::int64_t count) override {
    std::vector<double> blocks(
        static_cast<std::size_t>((count + kSquaresBlock - 1) / kSquaresBlock));
    parallel_for(threads_, static_cast<std::int64_t>(blocks.size()), [&](std::int64_t block) {
      const std::int64_t first = block * kSquaresBlock;
      blocks[static_cast<std::size_t>(block)] =
          squares_of_block(x + first, std::min(kSquaresBlock, count - first));
    });
    *sum = 0;
    for (const double block : blocks) *sum += block;
  }
  void limit_norm(Stream& stream, float* y, const double* squares, std::int64_t parts,
                  double max_norm, std::int64_t count) override {
    const float factor = clip_factor(squares, parts, max_norm);
    if (factor < 1) scale(stream, y, factor, count);
  }

  void sgd(Stream&, float* delta, float* velocity, const float* gradient, const float* weights,
           const SgdOptions& o, std::int64_t count) override {
    ensure(velocity != nullptr || o.momentum == 0, "momentum needs a velocity");
    pieces(count, [&](std::int64_t i, std::int64_t n) {
      if (velocity == nullptr) {
        loops::sgd(delta + i, gradient + i, weights + i, o.rate, o.weight_decay, n);
      } else {
        loops::sgd_momentum(delta + i, velocity + i, gradient + i, weights + i, o, n);
      }
    });
  }
  void adam(Stream&, float* delta, float* first, float* second, const float* gradient,
            const float* weights, const AdamOptions& options, std::int64_t step,
            std::int64_t count) override {
    ensure(step >= 1, "Adam's steps count from 1");
    const AdamStep s = adam_step(options, step);
    pieces(count, [&](std::int64_t i, std::int64_t n) {
      loops::adam(delta + i, first + i, second + i, gradient + i, weights + i, s, n);
    });
  }
  void rmsprop(Stream&, float* delta, float* second, const float* gradient, const float* weights,
               const RmspropOptions& options, std::int64_t count) override {
    pieces(count, [&](std::int64_t i, std::int64_t n) {
      loops::rmsprop(delta + i, second + i, gradient + i, weights + i, options, n);
    });
  }
  void scale_by_trust(Stream& stream, float* update, const double* squares, float rate,
                      std::int64_t count) override {
    scale(stream, update, trust_factor(squares, rate), count);
  }
  void damp(Stream& stream, float* d, const DampedMatrix& m, const DampOptions& options) override {
    std::vector<float> in(static_cast<std::size_t>(m.inputs()));
    std::vector<float> out(static_cast<std::size_t>(m.outputs()));
    const auto towards_outputs = [&] { damp_sums(out.data(), d, in.data(), m, !m.inputs_first); };
    const std::vector<float>& of_rows = m.inputs_first ? in : out;
    const std::vector<float>& of_columns = m.inputs_first ? out : in;
    for (int k = 0; k < options.directions_of(m); ++k) {
      for (std::size_t i = 0; i < in.size(); ++i) {
        in[i] = damp_start(static_cast<std::int64_t>(i), k, options.step);
      }
      towards_outputs();
      damp_sums(in.data(), d, out.data(), m, m.inputs_first);
      double squares = 0;
      sum_of_squares(stream, &squares, in.data(), m.inputs());
      scale(stream, in.data(), unit_factor(squares), m.inputs());
      towards_outputs();
      scale(stream, out.data(), options.factor, m.outputs());
      parallel_pieces(threads_, m.rows, [&](std::int64_t r, std::int64_t n) {
        loops::damp_subtract(d + r * m.columns, of_rows.data() + r, of_columns.data(), n,
                             m.columns);
      });
    }
  }
  void look_ahead(Stream&, float* ahead, const float* weights, const float* x, float factor,
                  std::int64_t count) override {
    pieces(count, [&](std::int64_t i, std::int64_t n) {
      loops::look_ahead(ahead + i, weights + i, x + i, factor, n);
    });
  }
  void look_ahead_adam(Stream&, float* ahead, const float* weights, const float* first,
                       const float* second, const AdamOptions& options, std::int64_t step,
                       float factor, std::int64_t count) override {
    ensure(step >= 1, "Adam's steps count from 1");
    const AdamStep s = adam_step(options, step);
    pieces(count, [&](std::int64_t i, std::int64_t n) {
      loops::look_ahead_adam(ahead + i, weights + i, first + i, second + i, s, factor, n);
    });
  }

 private:
  // Sums over d of its products with v, along rows or down columns.
  void damp_sums(float* sums, const float* d, const float* v, const DampedMatrix& m,
                 bool along_rows) const {
    parallel_pieces(threads_, along_rows ? m.rows : m.columns, [&](std::int64_t i, std::int64_t n) {
      if (along_rows) {
        loops::damp_along_rows(sums + i, d + i * m.columns, v, n, m.columns);
      } else {
        loops::damp_down_columns(sums + i, d + i, v, m.rows, m.columns, n);
      }
    });
  }
  template <class Body>
  void pieces(std::int64_t count, const Body& body) const {
    parallel_pieces(threads_, count, body);
  }

  std::unique_ptr<LayerKernel> guarded(std::unique_ptr<LayerKernel> kernel,
                                       const std::string& name) const {
    return std::make_unique<GuardedKernel>(std::move(kernel), threads_, name);
  }
  std::unique_ptr<LayerKernel> make(const Convolution& layer, const Shape& in, std::uint64_t,
                                    const std::string& name) {
    return guarded(make_convolution(context_, layer, in), name);
  }
  std::unique_ptr<LayerKernel> make(const TransposedConvolution& layer, const Shape& in,
                                    std::uint64_t, const std::string& name) {
    return guarded(make_transposed_convolution(context_, layer, in), name);
  }
  std::unique_ptr<LayerKernel> make(const Linear& layer, const Shape& in, std::uint64_t,
                                    const std::string& name) {
    return guarded(make_linear(context_, layer, in), name);
  }
  std::unique_ptr<LayerKernel> make(const Concat&, const Shape&, std::uint64_t,
                                    const std::string&) {
    ensure(false, "a concatenation is made from all its inputs");
    return nullptr;
  }
  std::unique_ptr<LayerKernel> make(const JointLoss&, const Shape&, std::uint64_t,
                                    const std::string&) {
    ensure(false, "a joint loss is made from all its inputs");
    return nullptr;
  }
  static bool of_algebra(const LayerSpec& spec) {
    return std::visit([](const auto& l) { return AlgebraLayer<std::decay_t<decltype(l)>>; }, spec);
  }
  template <AlgebraLayer Layer>
  std::unique_ptr<LayerKernel> make(const Layer&, const Shape&, std::uint64_t, const std::string&) {
    ensure(false, "a layer of the algebra is made from all its inputs");
    return nullptr;
  }
  template <Elementwise Layer>
  std::unique_ptr<LayerKernel> make(const Layer& layer, const Shape& in, std::uint64_t,
                                    const std::string& name) {
    auto kernel = make_elementwise(context_, layer, in);
    return row_of<Layer>().cpu == CpuKernel::onednn ? guarded(std::move(kernel), name)
                                                    : std::move(kernel);
  }
  std::unique_ptr<LayerKernel> make(const SelfAttention& layer, const Shape& in, std::uint64_t,
                                    const std::string& name) {
    return guarded(make_attention(context_, layer, in), name);
  }
  std::unique_ptr<LayerKernel> make(const Recurrent& layer, const Shape& in, std::uint64_t,
                                    const std::string& name) {
    return guarded(make_recurrent(context_, layer, in), name);
  }
  std::unique_ptr<LayerKernel> make(const Lstm& layer, const Shape& in, std::uint64_t,
                                    const std::string& name) {
    return guarded(make_lstm(context_, layer, in), name);
  }
  template <class Layer>
  std::unique_ptr<LayerKernel> make(const Layer& layer, const Shape& in, std::uint64_t key,
                                    const std::string&) {
    return make_loop_kernel(layer, in, key, threads_);
  }

  int threads_;
  MemoryPool pool_;
  dnnl::engine engine_;
  CpuContext context_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
  return std::make_unique<CpuDevice>(threads);
}

}  // namespace hetpipe
