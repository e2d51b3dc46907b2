// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/image_loops.h"
#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"
#include "kernels/window.h"

// Own loops rather than oneDNN's: the winner costs one byte per element, a NaN is not swallowed,
// and the bits equal the definition's.
namespace hetpipe {
namespace {

class MaxPoolKernel final : public LayerKernel {
 public:
  MaxPoolKernel(const MaxPool& spec, const Shape& in, int threads)
      : window_(window_of(spec)),
        in_(in),
        out_(window_.output(in, in[3])),
        rows_(loops::reaches_of(window_.rows, in[1])),
        columns_(loops::reaches_of(window_.columns, in[2])),
        threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    const std::int64_t row_length = out_[2] * out_[3];
    std::uint8_t* winner =
        a.mode == Mode::train ? reinterpret_cast<std::uint8_t*>(a.stash) : nullptr;
    parallel_for(threads_, out_[0] * out_[1], [&](std::int64_t i) {
      const float* image = floats(a.inputs[0]) + i / out_[1] * (in_[1] * in_[2] * in_[3]);
      loops::max_pool_row(floats(a.output) + i * row_length,
                          winner == nullptr ? nullptr : winner + i * row_length, image, window_,
                          in_, i % out_[1]);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const std::int64_t in_length = in_[2] * in_[3], out_length = out_.elements() / out_[0];
    const std::uint8_t* winner = reinterpret_cast<const std::uint8_t*>(a.stash);
    parallel_for(threads_, in_[0] * in_[1], [&](std::int64_t i) {
      const std::int64_t first = i / in_[1] * out_length;
      loops::max_pool_backward_row(dx + i * in_length, floats(a.output_gradient) + first,
                                   winner + first, window_, rows_, columns_, out_, i % in_[1],
                                   in_[2]);
    });
  }

 private:
  Window window_;
  Shape in_, out_;
  loops::Reaches rows_, columns_;
  int threads_;
};

class AveragePoolKernel final : public LayerKernel {
 public:
  AveragePoolKernel(const AveragePool& spec, const Shape& in, int threads)
      : window_(window_of(spec)),
        count_padding_(spec.count_padding),
        in_(in),
        out_(window_.output(in, in[3])),
        threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    const std::int64_t row_length = out_[2] * out_[3];
    parallel_for(threads_, out_[0] * out_[1], [&](std::int64_t i) {
      const float* image = floats(a.inputs[0]) + i / out_[1] * (in_[1] * in_[2] * in_[3]);
      loops::average_pool_row(floats(a.output) + i * row_length, image, window_, in_,
                              count_padding_, i % out_[1]);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const std::int64_t in_length = in_.elements() / in_[0];
    const std::int64_t out_length = out_.elements() / out_[0];
    parallel_for(threads_, in_[0], [&](std::int64_t n) {
      loops::average_pool_backward(dx + n * in_length, floats(a.output_gradient) + n * out_length,
                                   window_, in_, count_padding_);
    });
  }

 private:
  Window window_;
  bool count_padding_;
  Shape in_, out_;
  int threads_;
};

class GlobalAveragePoolKernel final : public LayerKernel {
 public:
  GlobalAveragePoolKernel(const Shape& in, int threads)
      : batch_(in[0]), pixels_(in[1] * in[2]), channels_(in[3]), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_for(threads_, batch_, [&](std::int64_t n) {
      loops::global_average_forward(floats(a.output) + n * channels_,
                                    floats(a.inputs[0]) + n * pixels_ * channels_, pixels_,
                                    channels_);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    parallel_for(threads_, batch_, [&](std::int64_t n) {
      loops::global_average_backward(dx + n * pixels_ * channels_,
                                     floats(a.output_gradient) + n * channels_, pixels_, channels_);
    });
  }

 private:
  std::int64_t batch_, pixels_, channels_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_loop_kernel(const MaxPool& spec, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<MaxPoolKernel>(spec, in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const AveragePool& spec, const Shape& in,
                                              std::uint64_t, int threads) {
  return std::make_unique<AveragePoolKernel>(spec, in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const GlobalAveragePool&, const Shape& in,
                                              std::uint64_t, int threads) {
  return std::make_unique<GlobalAveragePoolKernel>(in, threads);
}

}  // namespace hetpipe
