// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/norm_loops.h"
#include "kernels/cpu/row_sums.h"
#include "kernels/host_device.h"

// Layer, RMS and group norm in our own loops: one pass over memory forward and one backward, as
// rows and samples stay in cache in between.
namespace hetpipe {
namespace {

using Floats = std::vector<float>;

Floats filled(std::int64_t count, float value) {
  return Floats(static_cast<std::size_t>(count), value);
}
float inverse_root(float square, double epsilon) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(square) + epsilon));
}
Floats inverse_roots(const float* squares, std::int64_t count, double epsilon) {
  Floats roots;
  for (std::int64_t i = 0; i < count; ++i) roots.push_back(inverse_root(squares[i], epsilon));
  return roots;
}
void to_floats(const double* from, std::size_t count, float* to) {
  for (std::size_t i = 0; to != nullptr && i < count; ++i) to[i] = static_cast<float>(from[i]);
}

// Both norms of rows; LayerNorm has a mean, RmsNorm none.
template <class Spec>
class RowNormKernel final : public LayerKernel {
 public:
  static constexpr bool kCentred = std::is_same_v<Spec, LayerNorm>;

  RowNormKernel(const Spec& spec, const Shape& in, int threads)
      : spec_(spec),
        epsilon_(static_cast<double>(spec.epsilon)),
        features_(in[in.rank() - 1]),
        rows_(in.elements() / features_),
        threads_(threads),
        ones_(filled(features_, 1)),
        zeros_(filled(features_, 0)) {}

  void forward(Stream&, const ForwardArguments& a) override {
    Floats own;
    float* kept = reinterpret_cast<float*>(a.stash);
    if (a.mode == Mode::evaluate) {
      own = filled((kCentred ? 2 : 1) * rows_, 0);
      kept = own.data();
    }
    const Floats more = factors(a.parameters);
    const float* const scale = more.empty() ? scale_of_row(a.parameters) : more.data();
    for_each_piece_of_rows(threads_, rows_, features_, [&](std::int64_t r, std::int64_t count) {
      const float* const x = floats(a.inputs[0]) + r * features_;
      float* const y = floats(a.output) + r * features_;
      if constexpr (kCentred) {
        const float* const shift = shift_of(spec_, a.parameters);
        loops::layer_norm_rows(y, x, scale, shift != nullptr ? shift : zeros_.data(), kept + r,
                               kept + rows_ + r, epsilon_, count, features_);
      } else {
        loops::rms_norm_rows(y, x, scale, kept + r, epsilon_, count, features_);
      }
    });
  }

  void backward(Stream&, const BackwardArguments& a) override {
    const float* const kept = reinterpret_cast<const float*>(a.stash);
    const Floats inverse = inverse_roots(kCentred ? kept + rows_ : kept, rows_, epsilon_);
    const Floats more = factors(a.parameters);
    const float* const scale = more.empty() ? scale_of_row(a.parameters) : more.data();
    float* const dx = wanted(a.input_gradients, 0);
    const bool sums_wanted = !a.parameter_gradients.empty();
    // A few rows at a time, so that they are still in cache for the second use; their sums first,
    // as dx may take the place of dy.
    const auto rows = [&](double* sums, std::int64_t first, std::int64_t count) {
      for (std::int64_t r = first; r < first + count; r += kRows) {
        const std::int64_t n = std::min(kRows, first + count - r);
        const float* const x = floats(a.inputs[0]) + r * features_;
        const float* const dy = floats(a.output_gradient) + r * features_;
        if constexpr (kCentred) {
          if (sums_wanted) {
            loops::layer_norm_parameter_sums(sums, sums + features_, dy, x, kept + r,
                                             &inverse[at(r)], n, features_);
          }
          if (dx != nullptr) {
            loops::layer_norm_rows_backward(dx + r * features_, dy, x, kept + r, &inverse[at(r)],
                                            scale, n, features_);
          }
        } else {
          if (sums_wanted) {
            loops::rms_norm_parameter_sums(sums, dy, x, &inverse[at(r)], n, features_);
          }
          if (dx != nullptr) {
            loops::rms_norm_rows_backward(dx + r * features_, dy, x, &inverse[at(r)], scale, n,
                                          features_);
          }
        }
      }
    };
    if (!sums_wanted) {
      for_each_piece_of_rows(threads_, rows_, features_,
                             [&](std::int64_t r, std::int64_t count) { rows(nullptr, r, count); });
      return;
    }
    const std::vector<double> sums =
        sums_of_rows(threads_, rows_, features_, kCentred ? 2 : 1, rows);
    if constexpr (kCentred) {
      to_floats(sums.data(), at(features_), scale_of(spec_, a.parameter_gradients));
      to_floats(sums.data() + features_, at(features_), shift_of(spec_, a.parameter_gradients));
    } else {
      to_floats(sums.data(), at(features_), wanted(a.parameter_gradients, 0));
    }
  }

 private:
  static constexpr std::int64_t kRows = 8;
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  // Where the factors are not the parameter itself.
  Floats factors(std::span<const float* const> parameters) const {
    Floats more;
    if constexpr (!kCentred) {
      if (!spec_.scaled || !spec_.one_plus) return {};
      more.assign(parameters[0], parameters[0] + features_);
      for (float& factor : more) factor += 1;
    }
    return more;
  }
  const float* scale_of_row(std::span<const float* const> parameters) const {
    return spec_.scaled ? parameters[0] : ones_.data();
  }

  Spec spec_;
  double epsilon_;
  std::int64_t features_, rows_;
  int threads_;
  Floats ones_, zeros_;
};

// Sums by channel of each sample, of which those of a group are added up.
class GroupNormKernel final : public LayerKernel {
 public:
  GroupNormKernel(const GroupNorm& spec, const Shape& in, int threads)
      : epsilon_(static_cast<double>(spec.epsilon)),
        batch_(in[0]),
        channels_(in[in.rank() - 1]),
        pixels_(in.elements() / batch_ / channels_),
        groups_(spec.groups),
        width_(channels_ / spec.groups),
        threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    Floats own;
    float* mean = reinterpret_cast<float*>(a.stash);
    if (a.mode == Mode::evaluate) {
      own = filled(2 * batch_ * groups_, 0);
      mean = own.data();
    }
    float* const variance = mean + batch_ * groups_;
    parallel_for(outer(), batch_, [&](std::int64_t n) {
      const float* const x = floats(a.inputs[0]) + n * pixels_ * channels_;
      group_statistics(x, mean + n * groups_, variance + n * groups_);
      Floats by(at(channels_)), means(at(channels_)), shifts(at(channels_));
      for (std::int64_t c = 0; c < channels_; ++c) {
        const std::int64_t g = n * groups_ + c / width_;
        by[at(c)] = inverse_root(variance[g], epsilon_) * parameter(a.parameters, 0, c, 1);
        means[at(c)] = mean[g];
        shifts[at(c)] = parameter(a.parameters, 1, c, 0);
      }
      float* const y = floats(a.output) + n * pixels_ * channels_;
      for_each_piece_of_rows(inner(), pixels_, channels_, [&](std::int64_t r, std::int64_t count) {
        loops::normalise(y + r * channels_, x + r * channels_, means.data(), by.data(),
                         shifts.data(), count, channels_);
      });
    });
  }

  void backward(Stream&, const BackwardArguments& a) override {
    const float* const mean = reinterpret_cast<const float*>(a.stash);
    const float* const variance = mean + batch_ * groups_;
    std::vector<double> products(at(batch_ * channels_)), sums(at(batch_ * channels_));
    float* const dx = wanted(a.input_gradients, 0);
    parallel_for(outer(), batch_, [&](std::int64_t n) {
      const std::int64_t sample = n * pixels_ * channels_;
      const float *const x = floats(a.inputs[0]) + sample, *const dy =
                                                               floats(a.output_gradient) + sample;
      Floats means(at(channels_));
      for (std::int64_t c = 0; c < channels_; ++c) means[at(c)] = mean[n * groups_ + c / width_];
      const std::vector<double> both = sums_of_rows(
          inner(), pixels_, channels_, 2, [&](double* to, std::int64_t r, std::int64_t count) {
            loops::gradient_sums(to, to + channels_, dy + r * channels_, x + r * channels_,
                                 means.data(), count, channels_);
          });
      Floats factor(at(channels_)), shift(at(channels_)), slope(at(channels_));
      for (std::int64_t g = 0; g < groups_; ++g) {
        const double by =
            1.0 / std::sqrt(static_cast<double>(variance[n * groups_ + g]) + epsilon_);
        double sum = 0, product = 0;
        for (std::int64_t c = g * width_; c < (g + 1) * width_; ++c) {
          const double scale = static_cast<double>(parameter(a.parameters, 0, c, 1));
          sums[at(n * channels_ + c)] = both[at(c)];
          products[at(n * channels_ + c)] = both[at(channels_ + c)] * by;
          sum += scale * both[at(c)];
          product += scale * both[at(channels_ + c)] * by;
          factor[at(c)] = static_cast<float>(by * scale);
        }
        const double count = static_cast<double>(pixels_ * width_);
        for (std::int64_t c = g * width_; c < (g + 1) * width_; ++c) {
          shift[at(c)] = static_cast<float>(by * sum / count);
          slope[at(c)] = static_cast<float>(by * by * product / count);
        }
      }
      if (dx == nullptr) return;
      for_each_piece_of_rows(inner(), pixels_, channels_, [&](std::int64_t r, std::int64_t count) {
        const std::int64_t first = r * channels_;
        loops::group_norm_backward(dx + sample + first, dy + first, x + first, means.data(),
                                   factor.data(), shift.data(), slope.data(), count, channels_);
      });
    });
    for (std::size_t i = at(channels_); i < sums.size(); ++i) {
      sums[i % at(channels_)] += sums[i];
      products[i % at(channels_)] += products[i];
    }
    to_floats(products.data(), at(channels_), wanted(a.parameter_gradients, 0));
    to_floats(sums.data(), at(channels_), wanted(a.parameter_gradients, 1));
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  // Samples are dealt to the threads, or the pieces of each.
  int outer() const { return batch_ >= threads_ ? threads_ : 1; }
  int inner() const { return batch_ >= threads_ ? 1 : threads_; }
  static float parameter(std::span<const float* const> parameters, std::size_t i, std::int64_t c,
                         float otherwise) {
    const float* const p = wanted(parameters, i);
    return p != nullptr ? p[c] : otherwise;
  }

  // Of deviations from each channel's first pixel, as batch norm's.
  void group_statistics(const float* x, float* mean, float* variance) const {
    const std::vector<double> sums = sums_of_rows(
        inner(), pixels_, channels_, 2, [&](double* own, std::int64_t first, std::int64_t count) {
          loops::deviation_sums(own, own + channels_, x + first * channels_, x, count, channels_);
        });
    const double pixels = static_cast<double>(pixels_),
                 count = pixels * static_cast<double>(width_);
    for (std::int64_t g = 0; g < groups_; ++g) {
      double sum = 0, squares = 0;
      for (std::int64_t c = g * width_; c < (g + 1) * width_; ++c) {
        sum += static_cast<double>(x[c]) * pixels + sums[at(c)];
      }
      const double m = sum / count;
      for (std::int64_t c = g * width_; c < (g + 1) * width_; ++c) {
        const double off = static_cast<double>(x[c]) - m;
        squares += sums[at(channels_ + c)] + 2 * off * sums[at(c)] + pixels * off * off;
      }
      mean[g] = static_cast<float>(m);
      variance[g] = static_cast<float>(squares < 0 ? 0 : squares / count);  // NaN stays
    }
  }

  double epsilon_;
  std::int64_t batch_, channels_, pixels_, groups_, width_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_loop_kernel(const LayerNorm& spec, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<RowNormKernel<LayerNorm>>(spec, in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const RmsNorm& spec, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<RowNormKernel<RmsNorm>>(spec, in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const GroupNorm& spec, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<GroupNormKernel>(spec, in, threads);
}

}  // namespace hetpipe
