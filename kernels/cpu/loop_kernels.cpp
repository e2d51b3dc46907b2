// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/loop_kernels.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"
#include "kernels/reference/elementwise.h"

namespace hetpipe {
namespace {

class ReluKernel final : public LayerKernel {
 public:
  ReluKernel(const Shape& in, int threads) : count_(in.elements()), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_pieces(threads_, count_, [&](std::int64_t begin, std::int64_t n) {
      loops::relu_forward(floats(a.output) + begin, floats(a.inputs[0]) + begin, n);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    parallel_pieces(threads_, count_, [&](std::int64_t begin, std::int64_t n) {
      loops::relu_backward(dx + begin, floats(a.output) + begin, floats(a.output_gradient) + begin,
                           n);
    });
  }

 private:
  std::int64_t count_;
  int threads_;
};

class AddKernel final : public LayerKernel {
 public:
  AddKernel(const Shape& in, int threads) : count_(in.elements()), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_pieces(threads_, count_, [&](std::int64_t begin, std::int64_t n) {
      loops::sum(floats(a.output) + begin, floats(a.inputs[0]) + begin, floats(a.inputs[1]) + begin,
                 n);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    for (std::byte* const gradient : a.input_gradients) {
      float* const dx = floats(gradient);
      if (dx == nullptr || dx == floats(a.output_gradient)) continue;
      parallel_pieces(threads_, count_, [&](std::int64_t begin, std::int64_t n) {
        std::copy_n(floats(a.output_gradient) + begin, n, dx + begin);
      });
    }
  }

 private:
  std::int64_t count_;
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

class DropoutKernel final : public LayerKernel {
 public:
  DropoutKernel(const Dropout& spec, const Shape& in, std::uint64_t key, int threads)
      : rate_(spec.rate),
        factor_(1 / (1 - spec.rate)),
        batch_(in[0]),
        sample_(in.elements() / in[0]),
        key_(key),
        threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    if (a.mode == Mode::evaluate) {
      if (floats(a.output) != floats(a.inputs[0]))
        std::copy_n(floats(a.inputs[0]), batch_ * sample_, floats(a.output));
      return;
    }
    ensure(static_cast<std::int64_t>(a.samples.size()) == batch_, "one sample key per sample");
    std::uint8_t* kept = reinterpret_cast<std::uint8_t*>(a.stash);
    parallel_for(threads_, batch_, [&](std::int64_t n) {
      const std::uint64_t key =
          reference::dropout_key(key_, a.samples[static_cast<std::size_t>(n)]);
      loops::dropout_draw(kept + n * sample_, key, rate_, sample_);
      loops::dropout_apply(floats(a.output) + n * sample_, floats(a.inputs[0]) + n * sample_,
                           kept + n * sample_, factor_, sample_);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const std::uint8_t* kept = reinterpret_cast<const std::uint8_t*>(a.stash);
    parallel_pieces(threads_, batch_ * sample_, [&](std::int64_t begin, std::int64_t n) {
      loops::dropout_apply(dx + begin, floats(a.output_gradient) + begin, kept + begin, factor_, n);
    });
  }

 private:
  float rate_, factor_;
  std::int64_t batch_, sample_;
  std::uint64_t key_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_loop_kernel(const Relu&, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<ReluKernel>(in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const Add&, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<AddKernel>(in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const Flatten&, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<FlattenKernel>(in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const Dropout& spec, const Shape& in,
                                              std::uint64_t key, int threads) {
  return std::make_unique<DropoutKernel>(spec, in, key, threads);
}

}  // namespace hetpipe
