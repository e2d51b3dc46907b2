// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// One step of an LSTM over the batch, as kernels/reference/lstm.h defines the cell; the products
// are the caller's. The sums of the gates come in float, from products of T accumulated in float.
// For T float, Bf16, Fp16: gates and h are T, as the products read them; cells are float, for they
// add up over all steps. What forward keeps for backward: gates (N, T, 4H) and cells (N, T, H),
// 4*bytes(T) + 4 bytes for each element of the output.
namespace hetpipe::cuda {

// A matrix whose rows are the batch's samples at one step: of (N, T, W), the stride is T*W.
template <class P>
struct StepRows {
  P* first = nullptr;
  std::int64_t stride = 0;
};

struct LstmStep {
  std::int64_t batch = 0;
  std::int64_t hidden = 0;
};

// gates (N, 4H): i, f, g, o of sums (N, 4H) + bias (4H, null: it is in the sums). cells (N, H) = f
// * before + i*g; before is null in the first step. h (N, H) = o * tanh(cells). gates may be the
// sums where T is float. Moves 16 + 4 (+ 4 where there are cells before) + 5*bytes(T) bytes per
// element of h.
template <class T>
void lstm_step_forward(const LstmStep& s, StepRows<const float> sums, const float* bias,
                       StepRows<const float> before, StepRows<T> gates, StepRows<float> cells,
                       StepRows<T> h, On on);

enum class StepPlace { last, before_another };

// dgates (N, 4H), of the sums; may be the gates. The gradient of h is dh (N, H), plus
// dh_recurrent (float, N x H: dgates of the step after times the hidden weights' transpose), null
// in the last step. dcells (float, N x H): of the step after on the way in, unless `last`; for the
// step before on the way out. Moves 4 + 8 (+ 4 where there are cells before, + 4 for dh_recurrent)
// + 9*bytes(T) bytes per element of h.
template <class T>
void lstm_step_backward(const LstmStep& s, StepPlace place, StepRows<const T> gates,
                        StepRows<const float> before, StepRows<const float> cells,
                        StepRows<const T> dh, const float* dh_recurrent, float* dcells,
                        StepRows<T> dgates, On on);

}  // namespace hetpipe::cuda
