// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "base/error.h"

// Softmax and cross-entropy of logits (N, classes) with labels (N) in [0, classes).
namespace hetpipe::reference {

// loss[n] = log(sum_j exp(x[n, j] - max)) - (x[n, label] - max). `probabilities` (N, classes) and
// `correct` (N; 1 where the first largest logit is the label's) may be null.
template <class T>
void softmax_cross_entropy_forward(std::int64_t batch, std::int64_t classes, const T* logits,
                                   const std::int32_t* labels, T* loss, T* probabilities,
                                   std::int32_t* correct) {
  for (std::int64_t n = 0; n < batch; ++n) {
    const T* x = logits + n * classes;
    const std::int64_t label = labels[n];
    ensure(0 <= label && label < classes, "label outside [0, classes)");
    std::int64_t best = 0;
    for (std::int64_t j = 1; j < classes; ++j)
      if (x[j] > x[best]) best = j;
    const double largest = static_cast<double>(x[best]);
    double sum = 0;
    for (std::int64_t j = 0; j < classes; ++j)
      sum += static_cast<double>(std::exp(static_cast<T>(static_cast<double>(x[j]) - largest)));
    loss[n] = static_cast<T>(std::log(sum) - (static_cast<double>(x[label]) - largest));
    if (correct != nullptr) correct[n] = best == label ? 1 : 0;
    if (probabilities == nullptr) continue;
    for (std::int64_t j = 0; j < classes; ++j) {
      const T e = std::exp(static_cast<T>(static_cast<double>(x[j]) - largest));
      probabilities[n * classes + j] = static_cast<T>(static_cast<double>(e) / sum);
    }
  }
}

// dx = (probabilities - one at the label) / loss_samples
template <class T>
void softmax_cross_entropy_backward(std::int64_t batch, std::int64_t classes,
                                    const T* probabilities, const std::int32_t* labels,
                                    std::int64_t loss_samples, T* dx) {
  ensure(loss_samples > 0, "the loss is a mean over no samples");
  const T denominator = static_cast<T>(loss_samples);
  for (std::int64_t n = 0; n < batch; ++n)
    for (std::int64_t j = 0; j < classes; ++j) {
      const T target = j == labels[n] ? T{1} : T{0};
      dx[n * classes + j] = (probabilities[n * classes + j] - target) / denominator;
    }
}

}  // namespace hetpipe::reference
