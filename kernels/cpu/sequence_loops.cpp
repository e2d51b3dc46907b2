// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/loop_kernels.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/norm_loops.h"
#include "kernels/cpu/threads.h"
#include "kernels/host_device.h"
#include "kernels/reference/embedding.h"
#include "kernels/reference/loss.h"

// The definition's loops over rows, tokens or features, dealt to the threads: every number is
// computed by one thread in the definition's order.
namespace hetpipe {
namespace {

// body(first, end) over pieces of [0, count) of `piece` each.
template <class Body>
void parallel_ranges(int threads, std::int64_t count, std::int64_t piece, const Body& body) {
  parallel_for(threads, (count + piece - 1) / piece,
               [&](std::int64_t p) { body(p * piece, std::min(count, (p + 1) * piece)); });
}

class EmbeddingKernel final : public LayerKernel {
 public:
  EmbeddingKernel(const Embedding& spec, const Shape& in, int threads)
      : spec_(spec), rows_(in.elements()), threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_ranges(threads_, rows_, 64, [&](std::int64_t first, std::int64_t end) {
      reference::embedding_forward(end - first, spec_.vocabulary, spec_.features,
                                   floats(a.inputs[0]) + first, a.parameters[0],
                                   floats(a.output) + first * spec_.features);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    if (float* dx = wanted(a.input_gradients, 0)) std::fill_n(dx, rows_, 0.0f);
    float* dweight = wanted(a.parameter_gradients, 0);
    if (dweight == nullptr) return;
    const auto of = reference::rows_by_token(rows_, spec_.vocabulary, floats(a.inputs[0]));
    parallel_ranges(threads_, spec_.vocabulary, 16, [&](std::int64_t first, std::int64_t end) {
      reference::embedding_weight_gradient(spec_.features, of, first, end,
                                           floats(a.output_gradient), dweight);
    });
    if (spec_.padding >= 0) {
      std::fill_n(dweight + spec_.padding * spec_.features, spec_.features, 0.0f);
    }
  }

 private:
  Embedding spec_;
  std::int64_t rows_;
  int threads_;
};

class PositionKernel final : public LayerKernel {
 public:
  PositionKernel(const PositionEmbedding& spec, const Shape& in, int threads)
      : batch_(in[0]),
        sample_(in[1] * in[2]),
        weights_(spec.positions == 0 ? sample_ : spec.positions * in[2]),
        threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    parallel_for(threads_, batch_, [&](std::int64_t n) {
      loops::sum(floats(a.output) + n * sample_, floats(a.inputs[0]) + n * sample_, a.parameters[0],
                 sample_);
    });
  }
  void backward(Stream&, const BackwardArguments& a) override {
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      parallel_ranges(threads_, weights_, 4096, [&](std::int64_t first, std::int64_t end) {
        reference::position_weight_gradient(batch_, sample_, first, end, floats(a.output_gradient),
                                            dweight);
      });
    }
    float* dx = wanted(a.input_gradients, 0);
    if (dx == nullptr || dx == floats(a.output_gradient)) return;
    parallel_for(threads_, batch_, [&](std::int64_t n) {
      std::copy_n(floats(a.output_gradient) + n * sample_, sample_, dx + n * sample_);
    });
  }

 private:
  std::int64_t batch_, sample_, weights_;
  int threads_;
};

class LossKernel final : public LayerKernel {
 public:
  LossKernel(const SoftmaxCrossEntropy& spec, const Shape& in, int threads)
      : smoothing_(static_cast<double>(spec.smoothing)),
        s_(reference::sizes_of(spec, in, Mode::train)),
        threads_(threads) {}

  void forward(Stream&, const ForwardArguments& a) override {
    const bool train = a.mode == Mode::train;
    float* const probabilities = train ? reinterpret_cast<float*>(a.stash) : nullptr;
    std::vector<reference::TokenLoss> tokens(static_cast<std::size_t>(s_.batch * s_.tokens));
    parallel_for(threads_, s_.batch * s_.tokens, [&](std::int64_t r) {
      tokens[static_cast<std::size_t>(r)] =
          token(a.mode, floats(a.inputs[0]), a.labels, r, probabilities);
    });
    reference::softmax_cross_entropy_sums(s_, tokens.data(), floats(a.output), a.correct,
                                          a.loss_weight);
  }
  void backward(Stream&, const BackwardArguments& a) override {
    float* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    ensure(a.loss_samples > 0, "the loss is a mean over no samples");
    const float* const probabilities = reinterpret_cast<const float*>(a.stash);
    const auto denominator =
        static_cast<float>(static_cast<double>(a.loss_samples) * s_.denominator(a.loss_weight));
    const double classes = static_cast<double>(s_.classes);
    const auto other = static_cast<float>(smoothing_ / classes);
    const auto right = static_cast<float>(1 - smoothing_ + smoothing_ / classes);
    parallel_for(threads_, s_.batch * s_.tokens, [&](std::int64_t r) {
      if (!s_.weights.empty() || !reference::is_labelled(s_, a.labels[r])) {
        reference::softmax_cross_entropy_backward(s_, smoothing_, probabilities, a.labels,
                                                  a.loss_samples, r, r + 1, dx, a.loss_scale,
                                                  a.loss_weight);
        return;
      }
      const float* const p = probabilities + r * s_.classes;
      float* const row = dx + r * s_.classes;
      loops::softmax_loss_gradient(row, p, other, denominator, a.loss_scale, s_.classes);
      const auto set = [&](std::int32_t label, float target) {
        row[label] = (p[label] - target) / denominator * a.loss_scale;
      };
      if (!s_.mixed) return set(a.labels[r], right);
      const auto [second, share] = reference::mixed_label(s_, a.labels, r);
      if (a.labels[r] == second) return set(second, right);
      const auto target = [&](double part) {
        return static_cast<float>((1 - smoothing_) * part + smoothing_ / classes);
      };
      set(a.labels[r], target(share));
      set(second, target(1 - share));
    });
  }

 private:
  // The definition's, but for how exponentials are formed and added.
  reference::TokenLoss token(Mode mode, const float* logits, const std::int32_t* labels,
                             std::int64_t r, float* probabilities) const {
    if (!reference::is_labelled(s_, labels[r])) return {};
    const bool train = mode == Mode::train;
    if ((train && smoothing_ != 0) || !s_.weights.empty()) {
      return reference::softmax_cross_entropy_row(s_, train ? smoothing_ : 0.0, logits, labels, r,
                                                  probabilities);
    }
    const auto check = [&](std::int32_t label) {
      ensure(0 <= label && label < s_.classes, "label outside [0, classes)");
    };
    check(labels[r]);
    const float* const x = logits + r * s_.classes;
    float* const p = probabilities == nullptr ? nullptr : probabilities + r * s_.classes;
    const loops::SoftmaxSum of = loops::softmax_sum(p, x, s_.classes);
    if (p != nullptr) loops::scale(p, static_cast<float>(1.0 / of.sum), s_.classes);
    const auto loss = [&](std::int32_t label) {
      return std::log(of.sum) - (static_cast<double>(x[label]) - static_cast<double>(of.largest));
    };
    reference::TokenLoss own{loss(labels[r]), of.best == labels[r], true};
    if (s_.mixed && train) {
      const auto [second, share] = reference::mixed_label(s_, labels, r);
      check(second);
      own.loss = share * own.loss + (1 - share) * loss(second);
    }
    return own;
  }

  double smoothing_;
  reference::LossSizes s_;
  int threads_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_loop_kernel(const Embedding& spec, const Shape& in, std::uint64_t,
                                              int threads) {
  return std::make_unique<EmbeddingKernel>(spec, in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const PositionEmbedding& spec, const Shape& in,
                                              std::uint64_t, int threads) {
  return std::make_unique<PositionKernel>(spec, in, threads);
}
std::unique_ptr<LayerKernel> make_loop_kernel(const SoftmaxCrossEntropy& spec, const Shape& in,
                                              std::uint64_t, int threads) {
  return std::make_unique<LossKernel>(spec, in, threads);
}

}  // namespace hetpipe
