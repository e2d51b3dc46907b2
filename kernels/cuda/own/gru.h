// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/lstm.h"

// One step of a GRU over the batch, as kernels/reference/recurrent.h defines the cell; the products
// are the caller's. The sums of the gates come in float, from products of T accumulated in float.
// For T float, Bf16, Fp16: h and gradients of gates are T, as the products read them. What forward
// keeps for backward is float: gates (N, T, 3H) and b_n (N, T, H). An update gate is often nearly
// 1, and 1 - z is a factor of all that is new: of two bytes it would have no digits left.
namespace hetpipe::cuda {

struct GruBiases {  // (3H) each; null: none
  const float* input = nullptr;
  const float* hidden = nullptr;
};

// gates (N, 3H): r, z, n, of input_sums (N, 3H; x weight_ih') and state_sums (N, 3H, rows one
// behind the other; h' weight_hh', null in the first step) plus biases. h (N, H) = (1 - z) * n + z
// * before; before is null in the first step.
template <class T>
void gru_step_forward(const LstmStep& s, StepRows<const float> input_sums, const float* state_sums,
                      const GruBiases& biases, StepRows<const T> before, StepRows<float> gates,
                      StepRows<float> kept, StepRows<T> h, On on);

// dinput, dstate (N, 3H): of what weight_ih and weight_hh gave. The gradient of h is dh (N, H)
// plus, unless `last`, dh_recurrent (float, N x H: dstate of the step after times weight_hh) and
// dh_beside (float, N x H), which holds the step after's way around its gates; it becomes this
// step's.
template <class T>
void gru_step_backward(const LstmStep& s, StepPlace place, StepRows<const float> gates,
                       StepRows<const float> kept, StepRows<const T> before, StepRows<const T> dh,
                       const float* dh_recurrent, float* dh_beside, StepRows<T> dinput,
                       StepRows<T> dstate, On on);

}  // namespace hetpipe::cuda
