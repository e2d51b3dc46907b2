// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"
#include "kernels/reference/regression_loss.h"

namespace hetpipe {
namespace {

// The definition's loops, a sample for each thread.
class RegressionLossKernel final : public LayerKernel {
 public:
  RegressionLossKernel(const RegressionLoss& spec, const Shape& in, int threads)
      : spec_(spec), batch_(in[0]), count_(in.elements() / in[0]), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_for(threads_, batch_, [&](std::int64_t n) {
      floats(a.output)[n] = reference::regression_loss_mean(
          spec_, count_, floats(a.inputs[0]) + n * count_, targets(a.labels) + n * count_);
    });
    if (a.correct != nullptr) std::fill_n(a.correct, batch_, 0);
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    parallel_for(threads_, batch_, [&](std::int64_t n) {
      reference::regression_loss_backward(spec_, count_, floats(a.inputs[0]) + n * count_,
                                          targets(a.labels) + n * count_, a.loss_samples,
                                          dx + n * count_, a.loss_scale);
    });
  }

 private:
  static const float* targets(const std::int32_t* labels) {
    return reinterpret_cast<const float*>(labels);
  }

  RegressionLoss spec_;
  std::int64_t batch_, count_;
  int threads_;
};

class OutputLossKernel final : public LayerKernel {
 public:
  explicit OutputLossKernel(std::int64_t batch) : batch_(batch) {}

  void forward(Stream&, const ForwardArguments& a) override {
    std::copy_n(floats(a.inputs[0]), batch_, floats(a.output));
    if (a.correct != nullptr) std::fill_n(a.correct, batch_, 0);
  }
  void backward(Stream&, const BackwardArguments& a) override {
    ensure(a.loss_samples > 0, "the loss is a mean over no samples");
    if (float* const dx = wanted(a.input_gradients, 0)) {
      std::fill_n(dx, batch_, 1 / static_cast<float>(a.loss_samples) * a.loss_scale);
    }
  }

 private:
  std::int64_t batch_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_loop_kernel(const RegressionLoss& spec, const Shape& in,
                                              std::uint64_t, int threads) {
  return std::make_unique<RegressionLossKernel>(spec, in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const OutputLoss&, const Shape& in, std::uint64_t,
                                              int) {
  return std::make_unique<OutputLossKernel>(in[0]);
}

}  // namespace hetpipe
