// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <numeric>

#include "kernels/cpu/algebra.h"
#include "kernels/cpu/algebra_loops.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/operand_lanes.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"
#include "kernels/reference/algebra_sums.h"
#include "kernels/reference/reference_device.h"

// Reductions, softmax and cumulative sums.
namespace hetpipe {
namespace {

// Sample by sample, reading the input in its own order: what is reduced lies beside the sample's
// results, which stay in the cache.
class ReduceKernel final : public LayerKernel {
 public:
  ReduceKernel(const Reduce& spec, const Shape& in, int threads)
      : spec_(spec),
        samples_(in[0]),
        elements_(in.elements() / in[0]),
        kept_(reference::product_of(spec.kept)),
        reduced_(reference::product_of(spec.reduced)),
        threads_(threads) {
    const LoopNumbers extents = reference::joined({spec.kept, spec.reduced});
    LoopNumbers to(extents.size(), 0);
    std::int64_t stride = 1;
    for (std::size_t j = spec.kept.size(); j-- > 0;) {
      to[j] = stride;
      stride *= spec.kept[j];
    }
    std::vector<std::size_t> order(extents.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t i, std::size_t j) {
      return std::abs(spec_.from.strides[i]) > std::abs(spec_.from.strides[j]);
    });
    LoopNumbers sorted, from, results;
    for (const std::size_t i : order) {
      sorted.push_back(extents[i]);
      from.push_back(spec.from.strides[i]);
      results.push_back(to[i]);
    }
    loops_ = merged_loops(sorted, {from, results});
    whole_ = kept_ * reduced_ == elements_;
  }

  // Whether this kernel computes it: of an input whose elements are read once, and where the first
  // of equal ones counts, in the order of the loops.
  static bool takes(const Reduce& r) {
    const LoopNumbers extents = reference::joined({r.kept, r.reduced});
    if (!r.from.table.empty() || !places_differ(extents, r.from.strides)) return false;
    if (r.kind != Reduce::Kind::first_maximum && r.kind != Reduce::Kind::first_minimum) return true;
    std::int64_t last = INT64_MAX;
    for (std::size_t j = r.kept.size(); j < extents.size(); ++j) {
      if (extents[j] == 1) continue;
      if (r.from.strides[j] < 0 || r.from.strides[j] > last) return false;
      last = r.from.strides[j];
    }
    return true;
  }

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_for(threads_, samples_, [&](std::int64_t n) {
      reduce(floats(a.inputs[0]) + n * elements_, floats(a.output) + n * kept_);
    });
  }

  void backward(Stream&, const BackwardArguments& a) override {
    float* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    parallel_for(threads_, samples_, [&](std::int64_t n) {
      const float* const x = a.inputs.empty() || a.inputs[0] == nullptr
                                 ? nullptr
                                 : floats(a.inputs[0]) + n * elements_;
      spread(x, floats(a.output_gradient) + n * kept_, dx + n * elements_);
    });
  }

 private:
  bool most() const {
    return spec_.kind == Reduce::Kind::maximum || spec_.kind == Reduce::Kind::first_maximum;
  }
  bool first() const {
    return spec_.kind == Reduce::Kind::first_maximum || spec_.kind == Reduce::Kind::first_minimum;
  }
  bool sums() const { return spec_.kind == Reduce::Kind::sum || spec_.kind == Reduce::Kind::mean; }

  // Rows of results, one after another.
  bool columns() const {
    return loops_.extents.size() == 2 && loops_.strides[0][0] == loops_.run() &&
           loops_.strides[0][1] == 1 && loops_.strides[1][0] == 0 && loops_.strides[1][1] == 1;
  }

  // body(a run of x, the place of its first result); x is gathered where it has gaps.
  template <class Body>
  void each_run(const float* x, const Body& body) const {
    std::vector<float> gathered(
        static_cast<std::size_t>(loops_.inner_stride(0) == 1 ? 0 : loops_.run()));
    LoopWalker walker(loops_, 0);
    for (std::int64_t r = 0; r < loops_.runs(); ++r, walker.next()) {
      const float* run = x + spec_.from.offset + walker.places()[0];
      if (!gathered.empty()) {
        loops::load_strided(gathered.data(), run, loops_.inner_stride(0), loops_.run());
        run = gathered.data();
      }
      body(run, walker.places()[1]);
    }
  }

  void reduce(const float* x, float* y) const {
    const std::int64_t step = loops_.inner_stride(1), run = loops_.run();
    if (sums()) {
      std::vector<double> totals(static_cast<std::size_t>(kept_), 0.0);
      if (columns()) {
        loops::column_sums(totals.data(), x + spec_.from.offset, loops_.extents[0], run);
      } else {
        each_run(x, [&](const float* from, std::int64_t at) {
          loops::sum_strided(totals.data() + at, step, from, run);
        });
      }
      const double divisor = spec_.kind == Reduce::Kind::mean ? static_cast<double>(reduced_) : 1;
      for (std::int64_t k = 0; k < kept_; ++k) {
        y[k] = static_cast<float>(totals[static_cast<std::size_t>(k)] / divisor);
      }
      return;
    }
    std::fill_n(y, kept_, most() ? -HUGE_VALF : HUGE_VALF);
    each_run(x, [&](const float* from, std::int64_t at) {
      if (step == 0) {
        const float best = most() ? loops::row_maximum(from, run) : loops::row_minimum(from, run);
        most() ? loops::raise(y + at, &best, 1) : loops::lower(y + at, &best, 1);
      } else if (step == 1) {
        most() ? loops::raise(y + at, from, run) : loops::lower(y + at, from, run);
      } else {
        for (std::int64_t i = 0; i < run; ++i) {
          float& best = y[at + i * step];
          best = most() ? pointwise::maximum(best, from[i]) : pointwise::minimum(best, from[i]);
        }
      }
    });
  }

  void spread(const float* x, const float* dy, float* dx) const {
    if (!whole_) std::fill_n(dx, elements_, 0.0f);
    const std::int64_t step = loops_.inner_stride(1), run = loops_.run();
    const std::int64_t to_step = loops_.inner_stride(0);
    std::vector<float> shares(dy, dy + kept_), best, values(static_cast<std::size_t>(run));
    if (spec_.kind == Reduce::Kind::mean) {
      loops::scale(shares.data(), static_cast<float>(1 / static_cast<double>(reduced_)), kept_);
    }
    if (!sums()) {
      best.resize(shares.size());
      reduce(x, best.data());
      if (!first()) share_among_equals(x, best, shares);
    }
    std::vector<bool> taken(first() ? shares.size() : 0, false);
    LoopWalker walker(loops_, 0);
    const auto store = [&](const float* from) {
      const std::int64_t to = spec_.from.offset + walker.places()[0];
      if (from != dx + to) loops::store_strided(dx + to, to_step, from, run);
      walker.next();
    };
    // Straight to where it belongs, if that has no gaps.
    const auto target = [&] {
      return to_step == 1 ? dx + spec_.from.offset + walker.places()[0] : values.data();
    };
    if (sums()) {
      for (std::int64_t r = 0; r < loops_.runs(); ++r) {
        float* const to = target();
        const float* const from = shares.data() + walker.places()[1];
        if (step == 0) {
          std::fill_n(to, run, *from);
        } else {
          loops::load_strided(to, from, step, run);
        }
        store(to);
      }
      return;
    }
    each_run(x, [&](const float* from, std::int64_t at) {
      float* const to = target();
      if (!first() && step <= 1 && step >= 0) {
        loops::give_to_best(to, from, best.data() + at, shares.data() + at, step, run);
        store(to);
        return;
      }
      for (std::int64_t i = 0; i < run; ++i) {
        const auto k = static_cast<std::size_t>(at + i * step);
        bool won = from[i] == best[k] || (std::isnan(from[i]) && std::isnan(best[k]));
        if (first()) {
          won = won && !taken[k];
          if (won) taken[k] = true;
        }
        to[i] = won ? shares[k] : 0.0f;
      }
      store(to);
    });
  }

  void share_among_equals(const float* x, const std::vector<float>& best,
                          std::vector<float>& shares) const {
    const std::int64_t step = loops_.inner_stride(1), run = loops_.run();
    std::vector<float> counts(shares.size(), 0.0f);
    each_run(x, [&](const float* from, std::int64_t at) {
      if (step == 0 || step == 1) {
        loops::count_best(counts.data() + at, from, best.data() + at, step, run);
        return;
      }
      for (std::int64_t i = 0; i < run; ++i) {
        loops::count_best(counts.data() + at + i * step, from + i, best.data() + at + i * step, 0,
                          1);
      }
    });
    for (std::size_t k = 0; k < shares.size(); ++k) shares[k] /= counts[k];
  }

  Reduce spec_;
  std::int64_t samples_, elements_, kept_, reduced_;
  int threads_;
  StridedLoops loops_;  // of a sample; lanes: the input, the result
  bool whole_ = false;
};

class SoftmaxKernel final : public LayerKernel {
 public:
  SoftmaxKernel(const Softmax& spec, const Shape& in, int threads)
      : logarithm_(spec.logarithm),
        features_(in[in.rank() - 1]),
        rows_(in.elements() / features_),
        threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    rows([&](std::int64_t r) {
      const float* const x = floats(a.inputs[0]) + r * features_;
      float* const y = floats(a.output) + r * features_;
      if (!logarithm_) {
        loops::softmax_row(y, x, features_, false);
        return;
      }
      const float most = loops::row_maximum(x, features_);
      const double sum = loops::sum_of_exponentials(x, most, features_);
      loops::shift_row(y, x, static_cast<float>(static_cast<double>(most) + std::log(sum)),
                       features_);
    });
  }

  void backward(Stream&, const BackwardArguments& a) override {
    float* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    rows([&](std::int64_t r) {
      const std::int64_t at = r * features_;
      const float *y = floats(a.output) + at, *dy = floats(a.output_gradient) + at;
      if (logarithm_) {
        const auto sum = static_cast<float>(loops::row_sum(dy, features_));
        loops::log_softmax_gradient_row(dx + at, y, dy, sum, features_);
      } else {
        const auto mean = static_cast<float>(loops::row_dot(y, dy, features_));
        loops::softmax_gradient_row(dx + at, y, dy, mean, features_);
      }
    });
  }

 private:
  template <class Body>
  void rows(const Body& body) const {
    const std::int64_t piece = std::max<std::int64_t>(1, (1 << 14) / features_);
    parallel_for(threads_, (rows_ + piece - 1) / piece, [&](std::int64_t p) {
      for (std::int64_t r = p * piece; r < std::min(rows_, (p + 1) * piece); ++r) body(r);
    });
  }

  bool logarithm_;
  std::int64_t features_, rows_;
  int threads_;
};

class CumulativeSumKernel final : public LayerKernel {
 public:
  CumulativeSumKernel(const Shape& in, int threads) : s_(in), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    sum(floats(a.inputs[0]), floats(a.output), false);
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* const dx = wanted(a.input_gradients, 0);
    if (dx != nullptr) sum(floats(a.output_gradient), dx, true);
  }

 private:
  static constexpr std::int64_t kFeatures = 256;

  void sum(const float* x, float* y, bool from_end) const {
    const std::int64_t parts = (s_.features + kFeatures - 1) / kFeatures;
    parallel_for(threads_, s_.outer * parts, [&](std::int64_t i) {
      std::array<double, kFeatures> sums{};
      const std::int64_t first = i % parts * kFeatures;
      const std::int64_t count = std::min(kFeatures, s_.features - first);
      for (std::int64_t t = 0; t < s_.places; ++t) {
        const std::int64_t place = from_end ? s_.places - 1 - t : t;
        const std::int64_t at = (i / parts * s_.places + place) * s_.features + first;
        if (count == 1) {
          sums[0] += static_cast<double>(x[at]);
          y[at] = static_cast<float>(sums[0]);
        } else {
          loops::accumulate_row(y + at, sums.data(), x + at, count);
        }
      }
    });
  }

  reference::CumulativeSizes s_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_reduce(const Reduce& spec, const Shape& in, int threads) {
  if (!ReduceKernel::takes(spec)) return make_algebra_kernel(spec, {in}, 0);
  return std::make_unique<ReduceKernel>(spec, in, threads);
}
std::unique_ptr<LayerKernel> make_softmax(const Softmax& spec, const Shape& in, int threads) {
  return std::make_unique<SoftmaxKernel>(spec, in, threads);
}
std::unique_ptr<LayerKernel> make_cumulative_sum(const Shape& in, int threads) {
  return std::make_unique<CumulativeSumKernel>(in, threads);
}

}  // namespace hetpipe
