// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/lstm.h"

#include "kernels/cuda/own/aligned.h"

namespace hetpipe::cuda {
namespace {

// A thread's units: with five or more packs in flight, few keep the registers few.
constexpr int kUnits = 4;

HETPIPE_DEVICE float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// Where a thread works: unit `first` and the V - 1 after it, of one sample.
struct Units {
  std::int64_t sample;
  std::int64_t first;

  template <class P>
  HETPIPE_DEVICE P* at(const StepRows<P>& rows) const {
    return rows.first + sample * rows.stride + first;
  }
};

// body(units) for all packs of V units of the batch.
template <int V, class Body>
HETPIPE_DEVICE void for_units(const LstmStep& s, const Body& body) {
  const std::int64_t packs = s.hidden / V;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < s.batch * packs;
       i += std::int64_t{gridDim.x} * kThreads)
    body(Units{i / packs, i % packs * V});
}

template <class T, int V>
HETPIPE_KERNEL void step_forward(LstmStep s, StepRows<const float> sums, const float* bias,
                                 StepRows<const float> before, StepRows<T> gates,
                                 StepRows<float> cells, StepRows<T> h) {
  for_units<V>(s, [&](const Units& u) {
    Pack<float, V> of[4]{}, old{}, cell{};
    for (int g = 0; g < 4; ++g) of[g] = load_pack<V>(u.at(sums) + g * s.hidden);
    if (before.first != nullptr) old = load_pack<V>(u.at(before));
    if (bias != nullptr) {
      for (int g = 0; g < 4; ++g) {
        const auto own = load<V>(bias + g * s.hidden + u.first, V);
        for (int v = 0; v < V; ++v) of[g].at[v] += own.at[v];
      }
    }
    Pack<T, V> kept[4]{}, out{};
    for (int v = 0; v < V; ++v) {
      // What backward will read goes into the cell, so that both agree.
      for (int g = 0; g < 4; ++g) {
        const float x = of[g].at[v];
        kept[g].at[v] = static_cast<T>(g == 2 ? tanhf(x) : sigmoid(x));
        of[g].at[v] = static_cast<float>(kept[g].at[v]);
      }
      cell.at[v] = of[1].at[v] * old.at[v] + of[0].at[v] * of[2].at[v];
      out.at[v] = static_cast<T>(of[3].at[v] * tanhf(cell.at[v]));
    }
    for (int g = 0; g < 4; ++g) store_pack(u.at(gates) + g * s.hidden, kept[g]);
    store_pack(u.at(cells), cell);
    store_pack(u.at(h), out);
  });
}

template <class T, int V>
HETPIPE_KERNEL void step_backward(LstmStep s, StepPlace place, StepRows<const T> gates,
                                  StepRows<const float> before, StepRows<const float> cells,
                                  StepRows<const T> dh, const float* dh_recurrent, float* dcells,
                                  StepRows<T> dgates) {
  for_units<V>(s, [&](const Units& u) {
    const std::int64_t own = u.sample * s.hidden + u.first;  // in (N, H)
    Pack<T, V> of[4]{};
    for (int g = 0; g < 4; ++g) of[g] = load_pack<V>(u.at(gates) + g * s.hidden);
    const auto cell = load_pack<V>(u.at(cells));
    const auto given = load_pack<V>(u.at(dh));
    Pack<float, V> old{}, recurrent{}, later{}, earlier{};
    if (before.first != nullptr) old = load_pack<V>(u.at(before));
    if (dh_recurrent != nullptr) recurrent = load_pack<V>(dh_recurrent + own);
    if (place != StepPlace::last) later = load_pack<V>(dcells + own);
    Pack<T, V> out[4]{};
    for (int v = 0; v < V; ++v) {
      const float i = static_cast<float>(of[0].at[v]), f = static_cast<float>(of[1].at[v]);
      const float g = static_cast<float>(of[2].at[v]), o = static_cast<float>(of[3].at[v]);
      const float gradient = static_cast<float>(given.at[v]) + recurrent.at[v];
      const float t = tanhf(cell.at[v]);
      const float d = later.at[v] + gradient * o * (1 - t * t);
      out[0].at[v] = static_cast<T>(d * g * (i * (1 - i)));
      out[1].at[v] = static_cast<T>(d * old.at[v] * (f * (1 - f)));
      out[2].at[v] = static_cast<T>(d * i * (1 - g * g));
      out[3].at[v] = static_cast<T>(gradient * t * (o * (1 - o)));
      earlier.at[v] = d * f;
    }
    for (int g = 0; g < 4; ++g) store_pack(u.at(dgates) + g * s.hidden, out[g]);
    store_pack(dcells + own, earlier);
  });
}

// Whether all rows of a step begin at a multiple of a pack.
template <class P>
bool in_packs(int V, const StepRows<P>& rows) {
  const auto address = reinterpret_cast<std::uintptr_t>(rows.first);
  return rows.stride % V == 0 && address % (V * sizeof(P)) == 0;
}

}  // namespace

template <class T>
void lstm_step_forward(const LstmStep& s, StepRows<const float> sums, const float* bias,
                       StepRows<const float> before, StepRows<T> gates, StepRows<float> cells,
                       StepRows<T> h, On on) {
  constexpr int V = kUnits;
  const bool packs = s.hidden % V == 0 && in_packs(V, sums) && in_packs(V, before) &&
                     in_packs(V, gates) && in_packs(V, cells) && in_packs(V, h);
  launch(packs ? step_forward<T, V> : step_forward<T, 1>,
         blocks_for(s.batch * s.hidden / (packs ? V : 1)), kThreads, on, s, sums, bias, before,
         gates, cells, h);
}

template <class T>
void lstm_step_backward(const LstmStep& s, StepPlace place, StepRows<const T> gates,
                        StepRows<const float> before, StepRows<const float> cells,
                        StepRows<const T> dh, const float* dh_recurrent, float* dcells,
                        StepRows<T> dgates, On on) {
  constexpr int V = kUnits;
  const bool packs = s.hidden % V == 0 && in_packs(V, gates) && in_packs(V, before) &&
                     in_packs(V, cells) && in_packs(V, dh) && in_packs(V, dgates) &&
                     in_packs(V, StepRows<const float>{dh_recurrent, 0}) &&
                     in_packs(V, StepRows<float>{dcells, 0});
  launch(packs ? step_backward<T, V> : step_backward<T, 1>,
         blocks_for(s.batch * s.hidden / (packs ? V : 1)), kThreads, on, s, place, gates, before,
         cells, dh, dh_recurrent, dcells, dgates);
}

#define HETPIPE_LSTM(T)                                                                 \
  template void lstm_step_forward(const LstmStep&, StepRows<const float>, const float*, \
                                  StepRows<const float>, StepRows<T>, StepRows<float>,  \
                                  StepRows<T>, On);                                     \
  template void lstm_step_backward(const LstmStep&, StepPlace, StepRows<const T>,       \
                                   StepRows<const float>, StepRows<const float>,        \
                                   StepRows<const T>, const float*, float*, StepRows<T>, On);
HETPIPE_LSTM(float)
HETPIPE_LSTM(Bf16)
HETPIPE_LSTM(Fp16)

}  // namespace hetpipe::cuda
