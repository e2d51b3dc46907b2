// SPDX-License-Identifier: Apache-2.0
#include "kernels/resize.h"

#include <algorithm>

#include "kernels/cpu/image_loops.h"
#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"
#include "kernels/reference/adaptive_pool.h"

namespace hetpipe {
namespace {

class ResizeKernel final : public LayerKernel {
 public:
  ResizeKernel(const Resize& spec, const Shape& in, int threads)
      : in_(in),
        nearest_(spec.kind == Resize::Kind::nearest),
        rows_(resize_places(spec.kind, in[1], spec.rows, spec.row_step)),
        columns_(resize_places(spec.kind, in[2], spec.columns, spec.column_step)),
        row_reaches_(loops::reaches_of(rows_, in[1])),
        column_reaches_(loops::reaches_of(columns_, in[2])),
        threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    const auto rows = static_cast<std::int64_t>(rows_.size());
    const std::int64_t channels = in_[3], line = in_[2] * channels;
    const std::int64_t out_line = static_cast<std::int64_t>(columns_.size()) * channels;
    parallel_for(threads_, in_[0] * rows, [&](std::int64_t i) {
      const ResizePlace& row = rows_[static_cast<std::size_t>(i % rows)];
      const float* const image = floats(a.inputs[0]) + i / rows * in_[1] * line;
      float* const y = floats(a.output) + i * out_line;
      const float* const low = image + row.low * line;
      if (nearest_) {
        for (std::size_t c = 0; c < columns_.size(); ++c) {
          std::copy_n(low + columns_[c].low * channels, channels,
                      y + static_cast<std::int64_t>(c) * channels);
        }
      } else {
        loops::bilinear_row(y, low, image + row.high * line, row, columns_, channels);
      }
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const auto columns = static_cast<std::int64_t>(columns_.size());
    const std::int64_t out = static_cast<std::int64_t>(rows_.size()) * columns * in_[3];
    parallel_for(threads_, in_[0] * in_[1], [&](std::int64_t i) {
      const std::unique_ptr<float[]> sum(new float[static_cast<std::size_t>(columns * in_[3])]);
      loops::resize_backward_row(dx + i * in_[2] * in_[3],
                                 floats(a.output_gradient) + i / in_[1] * out, row_reaches_,
                                 column_reaches_, i % in_[1], in_[2], columns, in_[3], sum.get());
    });
  }

 private:
  Shape in_;
  bool nearest_;
  std::vector<ResizePlace> rows_, columns_;
  loops::Reaches row_reaches_, column_reaches_;
  int threads_;
};

class AdaptivePoolKernel final : public LayerKernel {
 public:
  AdaptivePoolKernel(const AdaptivePool& spec, const Shape& in, int threads)
      : spec_(spec), in_(in), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    auto* const winner = a.mode == Mode::train ? reinterpret_cast<std::int32_t*>(a.stash) : nullptr;
    for_each_sample([&](std::int64_t n, const Shape& one) {
      const float* const image = floats(a.inputs[0]) + n * sample();
      float* const y = floats(a.output) + n * outputs() * in_[3];
      std::vector<double> sums(static_cast<std::size_t>(in_[3]));
      std::vector<std::int64_t> pixels;
      reference::for_each_window(
          spec_, one,
          [&](std::int64_t output, std::int64_t, const Window& rows, const Window& columns) {
            float* const to = y + output * in_[3];
            if (spec_.maximum) {
              loops::window_maximum(
                  to, winner == nullptr ? nullptr : winner + (n * outputs() + output) * in_[3],
                  image, rows.begin, rows.end, columns.begin, columns.end, in_[2], in_[3]);
              return;
            }
            std::fill(sums.begin(), sums.end(), 0.0);
            pixels.clear();
            for (std::int64_t h = rows.begin; h < rows.end; ++h)
              for (std::int64_t w = columns.begin; w < columns.end; ++w)
                pixels.push_back((h * in_[2] + w) * in_[3]);
            loops::window_sums(sums.data(), image, pixels.data(),
                               static_cast<std::int64_t>(pixels.size()), in_[3]);
            const auto area = static_cast<double>(rows.size() * columns.size());
            for (std::size_t c = 0; c < sums.size(); ++c)
              to[c] = static_cast<float>(sums[c] / area);
          });
    });
  }

  void backward(Stream&, const BackwardArguments& a) override {
    float* const gradient = wanted(a.input_gradients, 0);
    if (gradient == nullptr) return;
    const auto* const winner = reinterpret_cast<const std::int32_t*>(a.stash);
    for_each_sample([&](std::int64_t n, const Shape& one) {
      float* const dx = gradient + n * sample();
      const float* const dy = floats(a.output_gradient) + n * outputs() * in_[3];
      if (spec_.maximum) {
        reference::adaptive_max_backward(spec_, one, dy, winner + n * outputs() * in_[3], dx);
        return;
      }
      std::fill_n(dx, sample(), 0.0f);
      std::vector<float> part(static_cast<std::size_t>(in_[3]));
      reference::for_each_window(
          spec_, one,
          [&](std::int64_t output, std::int64_t, const Window& rows, const Window& columns) {
            const auto area = static_cast<float>(rows.size() * columns.size());
            const float* const from = dy + output * in_[3];
            for (std::size_t c = 0; c < part.size(); ++c) part[c] = from[c] / area;
            for (std::int64_t h = rows.begin; h < rows.end; ++h)
              for (std::int64_t w = columns.begin; w < columns.end; ++w)
                loops::add(dx + (h * in_[2] + w) * in_[3], part.data(), in_[3]);
          });
    });
  }

 private:
  using Window = reference::AdaptiveWindow;

  std::int64_t sample() const { return in_.elements() / in_[0]; }
  std::int64_t outputs() const { return std::int64_t{spec_.rows} * spec_.columns; }
  template <class Body>
  void for_each_sample(const Body& body) const {
    parallel_for(threads_, in_[0], [&](std::int64_t n) { body(n, in_.with_batch(1)); });
  }

  AdaptivePool spec_;
  Shape in_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_loop_kernel(const Resize& spec, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<ResizeKernel>(spec, in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const AdaptivePool& spec, const Shape& in,
                                              std::uint64_t key, int threads) {
  if (!spec.maximum && spec.rows == 1 && spec.columns == 1) {  // (N, C) lies as (N, 1, 1, C)
    return make_loop_kernel(GlobalAveragePool{}, in, key, threads);
  }
  return std::make_unique<AdaptivePoolKernel>(spec, in, threads);
}

}  // namespace hetpipe
