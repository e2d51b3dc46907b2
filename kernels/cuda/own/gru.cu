// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/gru.h"

#include "kernels/cuda/own/pack.h"

namespace hetpipe::cuda {
namespace {

HETPIPE_DEVICE float logistic(float x) { return 1 / (1 + expf(-x)); }

template <class P>
HETPIPE_DEVICE P* row_of(const StepRows<P>& rows, std::int64_t sample) {
  return rows.first + sample * rows.stride;
}

// A unit of a sample to a thread.
template <class T>
struct GruForward {
  LstmStep s;
  StepRows<const float> input_sums;
  const float* state_sums;
  GruBiases biases;
  StepRows<const T> before;
  StepRows<float> gates;
  StepRows<float> kept;
  StepRows<T> h;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t sample = i / s.hidden, unit = i % s.hidden;
    float a[3], b[3];
    for (int g = 0; g < 3; ++g) {
      const std::int64_t at = g * s.hidden + unit;
      a[g] = row_of(input_sums, sample)[at] + (biases.input != nullptr ? biases.input[at] : 0);
      b[g] = (state_sums != nullptr ? state_sums[sample * 3 * s.hidden + at] : 0) +
             (biases.hidden != nullptr ? biases.hidden[at] : 0);
    }
    const float r = logistic(a[0] + b[0]), z = logistic(a[1] + b[1]);
    const float n = tanhf(a[2] + r * b[2]);
    float* const own = row_of(gates, sample) + unit;
    own[0] = r;
    own[s.hidden] = z;
    own[2 * s.hidden] = n;
    row_of(kept, sample)[unit] = b[2];
    const float old =
        before.first != nullptr ? static_cast<float>(row_of(before, sample)[unit]) : 0.0f;
    row_of(h, sample)[unit] = static_cast<T>((1 - z) * n + z * old);
  }
};

template <class T>
struct GruBackward {
  LstmStep s;
  bool last;
  StepRows<const float> gates;
  StepRows<const float> kept;
  StepRows<const T> before;
  StepRows<const T> dh;
  const float* dh_recurrent;
  float* dh_beside;
  StepRows<T> dinput;
  StepRows<T> dstate;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t sample = i / s.hidden, unit = i % s.hidden;
    const float* const own = row_of(gates, sample) + unit;
    const float r = own[0], z = own[s.hidden], n = own[2 * s.hidden];
    float gradient = static_cast<float>(row_of(dh, sample)[unit]);
    if (!last) gradient += dh_recurrent[i] + dh_beside[i];
    const float old =
        before.first != nullptr ? static_cast<float>(row_of(before, sample)[unit]) : 0.0f;
    const float dn = gradient * (1 - z) * (1 - n * n);
    const float dz = gradient * (old - n) * (z * (1 - z));
    const float dr = dn * row_of(kept, sample)[unit] * (r * (1 - r));
    T* const of_input = row_of(dinput, sample) + unit;
    T* const of_state = row_of(dstate, sample) + unit;
    of_input[0] = of_state[0] = static_cast<T>(dr);
    of_input[s.hidden] = of_state[s.hidden] = static_cast<T>(dz);
    of_input[2 * s.hidden] = static_cast<T>(dn);
    of_state[2 * s.hidden] = static_cast<T>(dn * r);
    dh_beside[i] = gradient * z;
  }
};

}  // namespace

template <class T>
void gru_step_forward(const LstmStep& s, StepRows<const float> input_sums, const float* state_sums,
                      const GruBiases& biases, StepRows<const T> before, StepRows<float> gates,
                      StepRows<float> kept, StepRows<T> h, On on) {
  each<1>(GruForward<T>{s, input_sums, state_sums, biases, before, gates, kept, h},
          s.batch * s.hidden, on);
}

template <class T>
void gru_step_backward(const LstmStep& s, StepPlace place, StepRows<const float> gates,
                       StepRows<const float> kept, StepRows<const T> before, StepRows<const T> dh,
                       const float* dh_recurrent, float* dh_beside, StepRows<T> dinput,
                       StepRows<T> dstate, On on) {
  each<1>(GruBackward<T>{s, place == StepPlace::last, gates, kept, before, dh, dh_recurrent,
                         dh_beside, dinput, dstate},
          s.batch * s.hidden, on);
}

#define HETPIPE_GRU(T)                                                                         \
  template void gru_step_forward(const LstmStep&, StepRows<const float>, const float*,         \
                                 const GruBiases&, StepRows<const T>, StepRows<float>,         \
                                 StepRows<float>, StepRows<T>, On);                            \
  template void gru_step_backward(const LstmStep&, StepPlace, StepRows<const float>,           \
                                  StepRows<const float>, StepRows<const T>, StepRows<const T>, \
                                  const float*, float*, StepRows<T>, StepRows<T>, On);
HETPIPE_GRU(float)
HETPIPE_GRU(Bf16)
HETPIPE_GRU(Fp16)

}  // namespace hetpipe::cuda
