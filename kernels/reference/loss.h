// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/masked_tokens.h"
#include "kernels/layer.h"

// Softmax and cross-entropy of logits (N, T, classes) with labels (N, T) in [0, classes), or, where
// only some tokens are labelled, kNoLabel; one label per sample is T = 1.
namespace hetpipe::reference {

struct LossSizes {
  std::int64_t batch = 0;
  std::int64_t tokens = 1;
  std::int64_t classes = 0;
  std::int64_t labelled = 0;  // tokens of each sample, the others' label is kNoLabel; 0: all
  bool skips = false;         // any label may be kNoLabel
  ConstantTable<float> weights = {};  // of the classes; empty: 1
  bool mixed = false;                 // labels are three rows (SoftmaxCrossEntropy)

  // Of a sample, that its loss is the mean of.
  std::int64_t predictions() const { return labelled == 0 ? tokens : labelled; }
  // What the sum of a sample's losses is divided by.
  double denominator(double loss_weight) const {
    return loss_weight > 0 ? loss_weight : static_cast<double>(predictions());
  }
};
inline LossSizes sizes_of(const SoftmaxCrossEntropy& l, const Shape& in, Mode mode) {
  return {in[0],           in.rank() == 3 ? in[1] : 1,    in[in.rank() - 1], l.labelled, l.skips,
          l.class_weights, l.mixed && mode == Mode::train};
}

// What sample r is mixed with, and how much of it is its own.
struct MixedLabel {
  std::int32_t other = 0;
  double share = 1;
};
inline MixedLabel mixed_label(const LossSizes& s, const std::int32_t* labels, std::int64_t r) {
  return {labels[s.batch + r], static_cast<double>(std::bit_cast<float>(labels[2 * s.batch + r]))};
}

inline bool is_labelled(const LossSizes& s, std::int32_t label) {
  return label != kNoLabel || (s.labelled == 0 && !s.skips);
}

struct TokenLoss {
  double loss = 0;
  bool correct = false;   // the first largest logit is the label's
  bool labelled = false;  // without a label the others are 0
};

// loss = sum_j target_j * (log(sum_k exp(x[k] - max)) - (x[j] - max)), where the target is
// (1 - smoothing) at the label plus smoothing/classes everywhere, both times the class's weight.
// `probabilities` may be null.
template <class T>
TokenLoss softmax_cross_entropy_token(std::int64_t classes, double smoothing,
                                      const ConstantTable<float>& weights, const T* x,
                                      std::int32_t label, T* probabilities) {
  ensure(0 <= label && label < classes, "label outside [0, classes)");
  std::int64_t best = 0;
  for (std::int64_t j = 1; j < classes; ++j)
    if (x[j] > x[best]) best = j;
  const double largest = static_cast<double>(x[best]);
  double sum = 0;
  for (std::int64_t j = 0; j < classes; ++j) {
    const T e = std::exp(static_cast<T>(static_cast<double>(x[j]) - largest));
    sum += static_cast<double>(e);
    if (probabilities != nullptr) probabilities[j] = e;
  }
  for (std::int64_t j = 0; probabilities != nullptr && j < classes; ++j)
    probabilities[j] = static_cast<T>(static_cast<double>(probabilities[j]) / sum);
  const auto weight = [&](std::int64_t j) { return static_cast<double>(weights[j]); };
  double loss = std::log(sum) - (static_cast<double>(x[label]) - largest);
  if (!weights.empty()) {
    loss *= (1 - smoothing) * weight(label);
    for (std::int64_t j = 0; smoothing != 0 && j < classes; ++j)
      loss += smoothing / static_cast<double>(classes) * weight(j) *
              (std::log(sum) - (static_cast<double>(x[j]) - largest));
  } else if (smoothing != 0) {
    double mean = 0;
    for (std::int64_t j = 0; j < classes; ++j) mean += static_cast<double>(x[j]) - largest;
    mean = std::log(sum) - mean / static_cast<double>(classes);
    loss = (1 - smoothing) * loss + smoothing * mean;
  }
  return {loss, best == label, true};
}

// The same of row r of (N*T, classes), where `probabilities` and labels are those of all rows.
// Without a label the probabilities are not written.
template <class T>
TokenLoss softmax_cross_entropy_row(const LossSizes& s, double smoothing, const T* logits,
                                    const std::int32_t* labels, std::int64_t r, T* probabilities) {
  if (!is_labelled(s, labels[r])) return {};
  const auto by = [&](std::int32_t label) {
    return softmax_cross_entropy_token(
        s.classes, smoothing, s.weights, logits + r * s.classes, label,
        probabilities != nullptr ? probabilities + r * s.classes : nullptr);
  };
  TokenLoss own = by(labels[r]);
  if (s.mixed) {
    const MixedLabel mixed = mixed_label(s, labels, r);
    own.loss = mixed.share * own.loss + (1 - mixed.share) * by(mixed.other).loss;
  }
  return own;
}

// loss (N), the mean over each sample's labelled tokens of (N, T), or their sum by `loss_weight`
// where that is not 0 (ForwardArguments). `correct` (N), how many of them, may be null.
template <class T>
void softmax_cross_entropy_sums(const LossSizes& s, const TokenLoss* tokens, T* loss,
                                std::int32_t* correct, double loss_weight = 0) {
  for (std::int64_t n = 0; n < s.batch; ++n) {
    double sum = 0;
    std::int32_t right = 0;
    std::int64_t labelled = 0;
    for (const TokenLoss* token = tokens + n * s.tokens; token != tokens + (n + 1) * s.tokens;
         ++token) {
      sum += token->loss;
      right += token->correct ? 1 : 0;
      labelled += token->labelled ? 1 : 0;
    }
    ensure(labelled == s.predictions() || s.skips,
           "as many labels of each sample as the loss is a mean over");
    loss[n] = static_cast<T>(sum / s.denominator(loss_weight));
    if (correct != nullptr) correct[n] = right;
  }
}

// `probabilities` (N, T, classes) and `correct` (N) may be null.
template <class T>
void softmax_cross_entropy_forward(const LossSizes& s, double smoothing, const T* logits,
                                   const std::int32_t* labels, T* loss, T* probabilities,
                                   std::int32_t* correct, double loss_weight = 0) {
  std::vector<TokenLoss> tokens;
  for (std::int64_t r = 0; r < s.batch * s.tokens; ++r) {
    tokens.push_back(softmax_cross_entropy_row(s, smoothing, logits, labels, r, probabilities));
  }
  softmax_cross_entropy_sums(s, tokens.data(), loss, correct, loss_weight);
}

// dx = (probabilities - target) / (loss_samples * labelled) * scale of rows [first, end) of (N*T,
// classes), and 0 in rows without a label; `loss_weight` as in the forward. With class weights the
// probabilities are times the sum of the target.
template <class T>
void softmax_cross_entropy_backward(const LossSizes& s, double smoothing, const T* probabilities,
                                    const std::int32_t* labels, std::int64_t loss_samples,
                                    std::int64_t first, std::int64_t end, T* dx, float scale = 1,
                                    double loss_weight = 0) {
  ensure(loss_samples > 0, "the loss is a mean over no samples");
  const T denominator =
      static_cast<T>(static_cast<double>(loss_samples) * s.denominator(loss_weight));
  double weights = 0;
  for (std::int64_t j = 0; j < s.weights.size(); ++j) weights += static_cast<double>(s.weights[j]);
  const T other = static_cast<T>(smoothing / static_cast<double>(s.classes));
  const T right = static_cast<T>(1 - smoothing + smoothing / static_cast<double>(s.classes));
  for (std::int64_t r = first; r < end; ++r) {
    if (!is_labelled(s, labels[r])) {
      std::fill_n(dx + r * s.classes, s.classes, T{});
      continue;
    }
    if (!s.weights.empty()) {
      const T more = static_cast<T>((1 - smoothing) * static_cast<double>(s.weights[labels[r]]));
      const T sum = more + other * static_cast<T>(weights);
      for (std::int64_t j = 0; j < s.classes; ++j) {
        const T target = other * static_cast<T>(s.weights[j]) + (j == labels[r] ? more : T{0});
        dx[r * s.classes + j] =
            (probabilities[r * s.classes + j] * sum - target) / denominator * static_cast<T>(scale);
      }
      continue;
    }
    if (s.mixed) {
      const auto [second, share] = mixed_label(s, labels, r);
      for (std::int64_t j = 0; j < s.classes; ++j) {
        const double of_labels = (j == labels[r] ? share : 0) + (j == second ? 1 - share : 0);
        const T target =
            static_cast<T>((1 - smoothing) * of_labels + smoothing / double(s.classes));
        dx[r * s.classes + j] =
            (probabilities[r * s.classes + j] - target) / denominator * static_cast<T>(scale);
      }
      continue;
    }
    for (std::int64_t j = 0; j < s.classes; ++j) {
      const T target = j == labels[r] ? right : other;
      dx[r * s.classes + j] =
          (probabilities[r * s.classes + j] - target) / denominator * static_cast<T>(scale);
    }
  }
}

}  // namespace hetpipe::reference
