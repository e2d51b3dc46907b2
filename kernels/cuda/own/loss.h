// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Softmax and cross-entropy as kernels/reference/loss.h defines them, of logits (N, T, classes) of
// float, Bf16 or Fp16; losses are float. Backward computes the probabilities again from the logits,
// with what forward keeps of each token: for 50,257 classes that is 8 bytes where the
// probabilities would be 200,000, and reading the logits costs no more than reading those would.
namespace hetpipe::cuda {

struct LossSizes {
  std::int64_t batch = 0;
  std::int64_t tokens = 1;
  std::int64_t classes = 0;
  std::int64_t labelled = 0;       // tokens of each sample, the others' label is kNoLabel; 0: all
  bool skips = false;              // any label may be kNoLabel
  const float* weights = nullptr;  // of the classes (device memory); null: 1
  float weight_sum = 0;
  // Labels are three rows (SoftmaxCrossEntropy); T is 1 and nothing above is set.
  bool mixed = false;

  constexpr bool all_labelled() const { return labelled == 0 && !skips; }
  // Of a sample, that its loss is the mean of.
  std::int64_t predictions() const { return labelled == 0 ? tokens : labelled; }
  constexpr std::int64_t rows() const { return batch * tokens; }
};

// Of a token's logits: their largest, and the sum of exp(logit - largest).
struct SoftmaxSums {
  float largest = 0;
  float sum = 0;
};

std::size_t loss_scratch_bytes(const LossSizes& s);

// loss (N), the mean over each sample's labelled tokens; correct (N), how many tokens' first
// largest logit is the label's, may be null; kept (N, T) may be null. Another label outside [0,
// classes), or a second one, sets *outside to 1 (it is never set to 0) and makes its sample's loss
// NaN. Moves the bytes of the logits once.
template <class T>
void loss_forward(const LossSizes& s, float smoothing, const T* logits, const std::int32_t* labels,
                  float* loss, std::int32_t* correct, SoftmaxSums* kept, std::int32_t* outside,
                  void* scratch, On on);

// dx = (probability - target) * factor; factor is 1/(loss_samples*labelled), times the scale of the
// loss; 0 where the label is kNoLabel. dx may be the logits. A label outside is none. Moves the
// bytes of the logits and dx once.
template <class T>
void loss_backward(const LossSizes& s, float smoothing, const T* logits, const SoftmaxSums* kept,
                   const std::int32_t* labels, float factor, T* dx, On on);

}  // namespace hetpipe::cuda
