// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/host_device.h"

// Loops of our own: oneDNN 2.6 sums down the rows in fp32, one after another, which over 65,536
// rows costs two digits (tests/unit/kernels/accuracy_test.cpp, kernels/README.md). Forward and
// backward read their inputs twice, once for sums and once for elements, where oneDNN's forward
// reads x three times.
namespace hetpipe {
namespace {

class BatchNormKernel final : public LayerKernel {
 public:
  BatchNormKernel(const BatchNorm& spec, const Shape& in, int threads)
      : spec_(spec),
        channels_(in[in.rank() - 1]),
        rows_(in.elements() / channels_),
        threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    const float* const x = floats(a.inputs[0]);
    const float *mean = wanted(a.statistics, 0), *variance = wanted(a.statistics, 1);
    std::vector<float> own;
    if (a.mode == Mode::train || !spec_.tracked) {
      float* kept = reinterpret_cast<float*>(a.stash);
      if (a.mode == Mode::evaluate) {
        own.resize(at(2 * channels_));
        kept = own.data();
      }
      batch_statistics(x, kept, kept + channels_);
      mean = kept;
      variance = kept + channels_;
      if (a.update_statistics && spec_.tracked) {
        reference::update_running_statistics(rows_, channels_, spec_.momentum, mean, variance,
                                             a.statistics[0], a.statistics[1]);
      }
    }
    const float* const scale = wanted(a.parameters, 0);
    std::vector<float> factor(at(channels_));
    for (std::int64_t c = 0; c < channels_; ++c) {
      factor[at(c)] = static_cast<float>(inverse(variance[c]) * reference::element_or(scale, c, 1));
    }
    const std::vector<float> zeros(at(spec_.affine ? 0 : channels_));
    const float* const shift = spec_.affine ? a.parameters[1] : zeros.data();
    float* const y = floats(a.output);
    for_each_piece([&](std::int64_t first, std::int64_t count) {
      loops::normalise(y + first * channels_, x + first * channels_, mean, factor.data(), shift,
                       count, channels_);
    });
  }

  void backward(Stream&, const BackwardArguments& a) override {
    const float* const x = floats(a.inputs[0]);
    const float* const dy = floats(a.output_gradient);
    const float* const mean = reinterpret_cast<const float*>(a.stash);
    const float* const variance = mean + channels_;
    const std::vector<double> sums = sums_of_rows(
        threads_, rows_, channels_, 2, [&](double* own, std::int64_t first, std::int64_t count) {
          loops::gradient_sums(own, own + channels_, dy + first * channels_, x + first * channels_,
                               mean, count, channels_);
        });
    float* const dscale = wanted(a.parameter_gradients, 0);
    float* const dshift = wanted(a.parameter_gradients, 1);
    std::vector<float> factor(at(channels_)), shift(at(channels_)), slope(at(channels_));
    const double n = static_cast<double>(rows_);
    for (std::int64_t c = 0; c < channels_; ++c) {
      const double by = inverse(variance[c]);
      const double sum = sums[at(c)];
      const double products = sums[at(channels_ + c)] * by;  // of dy and normalised x
      if (dscale != nullptr) dscale[c] = static_cast<float>(products);
      if (dshift != nullptr) dshift[c] = static_cast<float>(sum);
      factor[at(c)] = static_cast<float>(by * reference::element_or(wanted(a.parameters, 0), c, 1));
      shift[at(c)] = static_cast<float>(sum / n);
      slope[at(c)] = static_cast<float>(products / n * by);
    }
    float* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    for_each_piece([&](std::int64_t first, std::int64_t count) {
      loops::normalise_backward(dx + first * channels_, dy + first * channels_,
                                x + first * channels_, mean, factor.data(), shift.data(),
                                slope.data(), count, channels_);
    });
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  double inverse(float variance) const {
    return 1.0 / std::sqrt(static_cast<double>(variance) + static_cast<double>(spec_.epsilon));
  }

  template <class Body>
  void for_each_piece(const Body& body) const {
    for_each_piece_of_rows(threads_, rows_, channels_, body);
  }

  // Of deviations from the first row, so that one pass does: the variance loses only digits that a
  // double has to spare.
  void batch_statistics(const float* x, float* mean, float* variance) const {
    const std::vector<double> sums = sums_of_rows(
        threads_, rows_, channels_, 2, [&](double* own, std::int64_t first, std::int64_t count) {
          loops::deviation_sums(own, own + channels_, x + first * channels_, x, count, channels_);
        });
    const double n = static_cast<double>(rows_);
    for (std::int64_t c = 0; c < channels_; ++c) {
      const double deviation = sums[at(c)] / n;
      mean[c] = static_cast<float>(static_cast<double>(x[c]) + deviation);
      const double square = sums[at(channels_ + c)] / n - deviation * deviation;
      variance[c] = static_cast<float>(square < 0 ? 0 : square);  // NaN stays
    }
  }

  BatchNorm spec_;
  std::int64_t channels_, rows_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_loop_kernel(const BatchNorm& spec, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<BatchNormKernel>(spec, in, threads);
}

}  // namespace hetpipe
