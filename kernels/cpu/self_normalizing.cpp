// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"
#include "kernels/reference/elementwise.h"

// SELU and alpha dropout.
namespace hetpipe {
namespace {

class SeluKernel final : public LayerKernel {
 public:
  SeluKernel(const Shape& in, int threads) : count_(in.elements()), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_pieces(threads_, count_, [&](std::int64_t begin, std::int64_t n) {
      reference::selu_forward(n, floats(a.inputs[0]) + begin, floats(a.output) + begin);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    parallel_pieces(threads_, count_, [&](std::int64_t begin, std::int64_t n) {
      loops::selu_backward(dx + begin, floats(a.output) + begin, floats(a.output_gradient) + begin,
                           n);
    });
  }

 private:
  std::int64_t count_;
  int threads_;
};

class AlphaDropoutKernel final : public LayerKernel {
 public:
  AlphaDropoutKernel(const AlphaDropout& spec, const Shape& in, std::uint64_t key, int threads)
      : rate_(spec.rate),
        map_(static_cast<double>(spec.rate)),
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
      loops::alpha_dropout_forward(floats(a.output) + n * sample_,
                                   floats(a.inputs[0]) + n * sample_, kept + n * sample_, map_,
                                   sample_);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const std::uint8_t* kept = reinterpret_cast<const std::uint8_t*>(a.stash);
    const float scale = static_cast<float>(map_.scale);
    parallel_pieces(threads_, batch_ * sample_, [&](std::int64_t begin, std::int64_t n) {
      loops::dropout_apply(dx + begin, floats(a.output_gradient) + begin, kept + begin, scale, n);
    });
  }

 private:
  float rate_;
  AlphaDropoutMap map_;
  std::int64_t batch_, sample_;
  std::uint64_t key_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_loop_kernel(const Selu&, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<SeluKernel>(in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const AlphaDropout& spec, const Shape& in,
                                              std::uint64_t key, int threads) {
  return std::make_unique<AlphaDropoutKernel>(spec, in, key, threads);
}

}  // namespace hetpipe
