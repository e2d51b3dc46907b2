// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"

// Layers that only move pixels: concatenation of channels, flattening and shifts.
namespace hetpipe {
namespace {

class ConcatKernel final : public LayerKernel {
 public:
  ConcatKernel(const std::vector<Shape>& inputs, int threads) : threads_(threads) {
    for (const Shape& in : inputs) {
      channels_.push_back(in[in.rank() - 1]);
      all_ += channels_.back();
    }
    rows_ = inputs[0].elements() / channels_[0];
  }

  void forward(Stream&, const ForwardArguments& a) override {
    rows([&](std::int64_t r) {
      float* to = floats(a.output) + r * all_;
      for (std::size_t i = 0; i < channels_.size(); ++i) {
        to = std::copy_n(floats(a.inputs[i]) + r * channels_[i], channels_[i], to);
      }
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    rows([&](std::int64_t r) {
      const float* from = floats(a.output_gradient) + r * all_;
      for (std::size_t i = 0; i < channels_.size(); from += channels_[i++]) {
        float* dx = wanted(a.input_gradients, i);
        if (dx != nullptr) std::copy_n(from, channels_[i], dx + r * channels_[i]);
      }
    });
  }

 private:
  template <class Body>
  void rows(const Body& body) const {
    const std::int64_t piece = std::max<std::int64_t>(1, (1 << 15) / all_);
    parallel_for(threads_, (rows_ + piece - 1) / piece, [&](std::int64_t p) {
      for (std::int64_t r = p * piece; r < std::min(rows_, (p + 1) * piece); ++r) body(r);
    });
  }

  std::vector<std::int64_t> channels_;
  std::int64_t rows_ = 0, all_ = 0;
  int threads_;
};

class FlattenKernel final : public LayerKernel {
 public:
  FlattenKernel(const Shape& in, int threads)
      : batch_(in[0]), pixels_(in[1] * in[2]), channels_(in[3]), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_for(threads_, batch_, [&](std::int64_t n) {
      const std::int64_t sample = n * pixels_ * channels_;
      loops::transpose(floats(a.output) + sample, floats(a.inputs[0]) + sample, pixels_, channels_);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    parallel_for(threads_, batch_, [&](std::int64_t n) {
      const std::int64_t sample = n * pixels_ * channels_;
      loops::transpose(dx + sample, floats(a.output_gradient) + sample, channels_, pixels_);
    });
  }

 private:
  std::int64_t batch_, pixels_, channels_;
  int threads_;
};

class ShiftKernel final : public LayerKernel {
 public:
  ShiftKernel(const Shift& spec, const Shape& in, int threads)
      : rows_(spec.rows), columns_(spec.columns), in_(in), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    shift(floats(a.inputs[0]), floats(a.output), rows_, columns_);
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx != nullptr) shift(floats(a.output_gradient), dx, -rows_, -columns_);
  }

 private:
  void shift(const float* x, float* y, std::int64_t rows, std::int64_t columns) const {
    const std::int64_t row_length = in_[2] * in_[3];
    const std::int64_t moved = std::max<std::int64_t>(0, in_[2] - std::abs(columns)) * in_[3];
    const std::int64_t from_column = std::max<std::int64_t>(0, columns) * in_[3];
    const std::int64_t to_column = std::max<std::int64_t>(0, -columns) * in_[3];
    parallel_for(threads_, in_[0] * in_[1], [&](std::int64_t i) {
      float* to = y + i * row_length;
      const std::int64_t from_row = i % in_[1] + rows;
      std::fill_n(to, row_length, 0.0f);
      if (from_row < 0 || from_row >= in_[1] || moved == 0) return;
      std::copy_n(x + (i + rows) * row_length + from_column, moved, to + to_column);
    });
  }

  std::int64_t rows_, columns_;
  Shape in_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_loop_kernel(const Flatten&, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<FlattenKernel>(in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const Shift& spec, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<ShiftKernel>(spec, in, threads);
}

std::unique_ptr<LayerKernel> make_concat(const std::vector<Shape>& inputs, int threads) {
  return std::make_unique<ConcatKernel>(inputs, threads);
}

}  // namespace hetpipe
