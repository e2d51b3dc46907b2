// SPDX-License-Identifier: Apache-2.0
#include "kernels/dropout.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"

namespace hetpipe {
namespace {

// Dropout and alpha dropout, which differ in what becomes of an element.
template <class Spec>
class DropoutKernel final : public LayerKernel {
 public:
  DropoutKernel(const Spec& spec, const Shape& in, std::uint64_t key, int threads)
      : rate_(spec.rate),
        map_(static_cast<double>(spec.rate)),
        batch_(in[0]),
        sample_(in.elements() / in[0]),
        draws_(sample_),
        key_(key),
        threads_(threads) {
    if constexpr (!kAlpha) {
      if (spec.draws > 0) draws_ = spec.draws;
    }
  }

  void forward(Stream&, const ForwardArguments& a) override {
    if (a.mode == Mode::evaluate) {
      if (floats(a.output) != floats(a.inputs[0]))
        std::copy_n(floats(a.inputs[0]), batch_ * sample_, floats(a.output));
      return;
    }
    ensure(static_cast<std::int64_t>(a.samples.size()) == batch_, "one sample key per sample");
    std::uint8_t* all_kept = reinterpret_cast<std::uint8_t*>(a.stash);
    parallel_for(threads_, batch_, [&](std::int64_t n) {
      std::uint8_t* kept = all_kept + n * sample_;
      float* y = floats(a.output) + n * sample_;
      const float* x = floats(a.inputs[0]) + n * sample_;
      const SampleKey& sample = a.samples[static_cast<std::size_t>(n)];
      loops::dropout_draw(kept, dropout_key(key_, sample), rate_, draws_);
      for (std::int64_t e = draws_; e < sample_; e += draws_) std::copy_n(kept, draws_, kept + e);
      if constexpr (kAlpha) {
        loops::alpha_dropout_forward(y, x, kept, map_, sample_);
      } else {
        loops::dropout_apply(y, x, kept, factor(), sample_);
      }
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const std::uint8_t* kept = reinterpret_cast<const std::uint8_t*>(a.stash);
    parallel_pieces(threads_, batch_ * sample_, [&](std::int64_t begin, std::int64_t n) {
      loops::dropout_apply(dx + begin, floats(a.output_gradient) + begin, kept + begin, factor(),
                           n);
    });
  }

 private:
  static constexpr bool kAlpha = std::is_same_v<Spec, AlphaDropout>;
  // Of what is kept, and of its gradient.
  float factor() const { return kAlpha ? static_cast<float>(map_.scale) : 1 / (1 - rate_); }

  float rate_;
  AlphaDropoutMap map_;
  std::int64_t batch_, sample_, draws_;
  std::uint64_t key_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_loop_kernel(const Dropout& spec, const Shape& in,
                                              std::uint64_t key, int threads) {
  return std::make_unique<DropoutKernel<Dropout>>(spec, in, key, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const AlphaDropout& spec, const Shape& in,
                                              std::uint64_t key, int threads) {
  return std::make_unique<DropoutKernel<AlphaDropout>>(spec, in, key, threads);
}

}  // namespace hetpipe
