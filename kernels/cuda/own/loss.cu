// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/loss.h"

#include "base/masked_tokens.h"
#include "kernels/cuda/own/rows.h"

namespace hetpipe::cuda {
namespace {

// Of rows in a sample of which not all are labelled.
HETPIPE_DEVICE bool is_unlabelled(bool some_labelled, std::int64_t label) {
  return some_labelled && label == kNoLabel;
}

// What a row of mixed labels is mixed with, and how much of it is its own; else all of it is.
struct MixedLabel {
  std::int64_t second = -1;
  float share = 1;
};
HETPIPE_DEVICE MixedLabel mixed_label(const LossSizes& s, const std::int32_t* labels,
                                      std::int64_t row) {
  if (!s.mixed) return {};
  return {labels[s.batch + row], reinterpret_cast<const float*>(labels)[2 * s.batch + row]};
}

// Rows of more classes than this get a block each.
constexpr std::int64_t kWarpClasses = 1024;

// A team walks a row of any length and address: single elements up to the first multiple of 16
// bytes, packs, and what remains. body(first, pack).
template <int V, int kTeam, class T, class Body>
HETPIPE_DEVICE void walk_row(const T* row, std::int64_t count, const Body& body) {
  constexpr int kFlight = 4;  // packs that are loaded before the first is used
  const int lane = static_cast<int>(threadIdx.x) % kTeam;
  std::int64_t head = 0;
  if constexpr (V > 1) {
    const auto over = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row) % 16);
    head = (16 - over) % 16 / static_cast<std::int64_t>(sizeof(T));
    if (head > count) head = count;
  }
  if (lane < head) body(lane, load_pack<1>(row + lane));
  const std::int64_t packs = (count - head) / V;
  for (std::int64_t p = lane; p < packs; p += kFlight * kTeam) {
    Pack<T, V> loaded[kFlight]{};
    HETPIPE_UNROLL
    for (int k = 0; k < kFlight; ++k)
      if (p + k * kTeam < packs) loaded[k] = load_pack<V>(row + head + (p + k * kTeam) * V);
    HETPIPE_UNROLL
    for (int k = 0; k < kFlight; ++k)
      if (p + k * kTeam < packs) body(head + (p + k * kTeam) * V, loaded[k]);
  }
  const std::int64_t tail = head + packs * V + lane;
  if (tail < count) body(tail, load_pack<1>(row + tail));
}

// What a thread has seen of its row. The sum is taken again where a larger logit comes, so that one
// pass does.
struct Seen {
  float largest = -INFINITY;
  float sum = 0;                   // of exp(logit - largest)
  std::int64_t first = INT64_MAX;  // where the largest stands first
  CompensatedSum shifted;          // of weight * (logit - origin)

  template <class T, int V>
  HETPIPE_DEVICE void take(std::int64_t at, const Pack<T, V>& pack) {
    float values[V];
    float here = largest;
    for (int v = 0; v < V; ++v) {
      values[v] = static_cast<float>(pack.at[v]);
      if (values[v] > here || (values[v] == here && at + v < first)) {
        here = values[v];
        first = at + v;
      }
    }
    if (here > largest) {
      sum *= expf(largest - here);
      largest = here;
    }
    const float by = largest == -INFINITY ? 0 : largest;  // exp(-inf - -inf) would be NaN
    for (int v = 0; v < V; ++v) sum += expf(values[v] - by);
  }
  // weights: of these classes, null: 1.
  template <class T, int V>
  HETPIPE_DEVICE void add_shifted(float origin, const float* weights, const Pack<T, V>& pack) {
    float all = 0;
    for (int v = 0; v < V; ++v) {
      const float x = static_cast<float>(pack.at[v]) - origin;
      all += weights != nullptr ? weights[v] * x : x;
    }
    shifted.add(all);
  }
};

template <class T, int V, int kTeam>
HETPIPE_KERNEL __launch_bounds__(kRowThreads,
                                 3) void token_losses(LossSizes s, float smoothing, const T* logits,
                                                      const std::int32_t* labels, float* loss,
                                                      std::int32_t* correct, SoftmaxSums* kept,
                                                      std::int32_t* outside) {
  const std::int64_t row = team_row<kTeam>();
  if (row >= s.rows()) return;
  const std::int64_t classes = s.classes;
  const T* const own = logits + row * classes;
  const float origin = static_cast<float>(own[0]);
  Seen seen;
  walk_row<V, kTeam>(own, classes, [&](std::int64_t at, const auto& pack) {
    seen.take(at, pack);
    if (smoothing != 0) {
      seen.add_shifted(origin, s.weights != nullptr ? s.weights + at : nullptr, pack);
    }
  });
  const float largest = team_reduce<kTeam>(seen.largest, Larger{});
  const std::int64_t best =
      team_reduce<kTeam>(seen.largest == largest ? seen.first : INT64_MAX, Smaller{});
  float sums[2] = {seen.sum * (seen.largest == -INFINITY ? 1 : expf(seen.largest - largest)),
                   seen.shifted.sum};
  team_reduce<kTeam>(sums, Plus{});
  if (threadIdx.x % kTeam != 0) return;
  if (kept != nullptr) kept[row] = {largest, sums[0]};
  const std::int64_t label = labels[row];
  const MixedLabel mixed = mixed_label(s, labels, row);
  if (s.mixed && (mixed.second < 0 || mixed.second >= classes)) {
    *outside = 1;
    loss[row] = NAN;
    if (correct != nullptr) correct[row] = 0;
    return;
  }
  if (label < 0 || label >= classes) {
    const bool meant = is_unlabelled(!s.all_labelled(), label);
    if (!meant) *outside = 1;
    loss[row] = meant ? 0 : NAN;
    if (correct != nullptr) correct[row] = 0;
    return;
  }
  float at_label = static_cast<float>(own[label]) - largest;
  if (s.mixed) {
    const float at_second = static_cast<float>(own[mixed.second]) - largest;
    at_label = mixed.share * at_label + (1 - mixed.share) * at_second;
  }
  float value = logf(sums[0]) - at_label;
  if (s.weights != nullptr) {
    value *= (1 - smoothing) * s.weights[label];
    if (smoothing != 0) {
      const float all = s.weight_sum * (logf(sums[0]) - (origin - largest)) - sums[1];
      value += smoothing / static_cast<float>(classes) * all;
    }
  } else if (smoothing != 0) {
    const float mean = logf(sums[0]) - (sums[1] / static_cast<float>(classes) + (origin - largest));
    value = (1 - smoothing) * value + smoothing * mean;
  }
  loss[row] = value;
  if (correct != nullptr) correct[row] = best == label ? 1 : 0;
}

// A warp sums a sample's tokens.
HETPIPE_KERNEL void sample_losses(LossSizes s, std::int64_t predictions, const float* token_loss,
                                  const std::int32_t* token_correct, float* loss,
                                  std::int32_t* correct) {
  const std::int64_t n = team_row<kWarp>();
  if (n >= s.batch) return;
  CompensatedSum sum;
  std::int32_t right = 0;
  for (std::int64_t t = threadIdx.x % kWarp; t < s.tokens; t += kWarp) {
    sum.add(token_loss[n * s.tokens + t]);
    right += token_correct[n * s.tokens + t];
  }
  const float total = warp_reduce(sum.sum, Plus{});
  right = warp_reduce(right, Plus{});
  if (threadIdx.x % kWarp != 0) return;
  loss[n] = total / static_cast<float>(predictions);
  if (correct != nullptr) correct[n] = right;
}

template <class T, int V, int kTeam>
HETPIPE_KERNEL void logit_gradients(LossSizes s, float smoothing, const T* logits,
                                    const SoftmaxSums* kept, const std::int32_t* labels,
                                    float factor, T* dx) {
  const std::int64_t row = team_row<kTeam>(), classes = s.classes;
  if (row >= s.rows()) return;
  const SoftmaxSums own = kept[row];
  const float inverse = 1 / own.sum;
  const std::int64_t label = labels[row];
  if (is_unlabelled(!s.all_labelled(), label)) factor = 0;
  const float other = smoothing / static_cast<float>(classes);
  const bool weighed = s.weights != nullptr && label >= 0 && label < classes;
  const MixedLabel mixed = mixed_label(s, labels, row);
  const float more = (1 - smoothing) * (weighed ? s.weights[label] : mixed.share);
  const float second = (1 - smoothing) * (1 - mixed.share);
  // Of all targets.
  const float whole = weighed ? more + other * s.weight_sum : 1.0f;
  T* const to = dx + row * classes;
  walk_row<V, kTeam>(logits + row * classes, classes, [&](std::int64_t at, auto pack) {
    for (auto& element : pack.at) {
      const float target = (at == label ? more : 0.0f) + (at == mixed.second ? second : 0.0f) +
                           (weighed ? other * s.weights[at] : other);
      const float probability = expf(static_cast<float>(element) - own.largest) * inverse;
      element = static_cast<T>((probability * whole - target) * factor);
      ++at;
    }
    store_pack(to + at - sizeof(pack.at) / sizeof(T), pack);
  });
}

unsigned row_blocks(std::int64_t rows, int threads) {
  const std::int64_t together = kRowThreads / threads;
  return one_each((rows + together - 1) / together);
}

}  // namespace

std::size_t loss_scratch_bytes(const LossSizes& s) {
  return s.tokens == 1
             ? 0
             : static_cast<std::size_t>(s.rows()) * (sizeof(float) + sizeof(std::int32_t));
}

template <class T>
void loss_forward(const LossSizes& s, float smoothing, const T* logits, const std::int32_t* labels,
                  float* loss, std::int32_t* correct, SoftmaxSums* kept, std::int32_t* outside,
                  void* scratch, On on) {
  const bool wide = s.classes > kWarpClasses;
  float* const token_loss = s.tokens == 1 ? loss : static_cast<float*>(scratch);
  std::int32_t* const token_correct =
      s.tokens == 1 ? correct : static_cast<std::int32_t*>(scratch) + s.rows();
  launch(wide ? token_losses<T, kPack<T>, kRowThreads> : token_losses<T, kPack<T>, kWarp>,
         row_blocks(s.rows(), wide ? kRowThreads : kWarp), kRowThreads, on, s, smoothing, logits,
         labels, token_loss, token_correct, kept, outside);
  if (s.tokens == 1) return;
  launch(sample_losses, row_blocks(s.batch, kWarp), kRowThreads, on, s, s.predictions(), token_loss,
         token_correct, loss, correct);
}

template <class T>
void loss_backward(const LossSizes& s, float smoothing, const T* logits, const SoftmaxSums* kept,
                   const std::int32_t* labels, float factor, T* dx, On on) {
  constexpr int V = kPack<T>;
  // Packs of the logits are packs of dx where both lie alike.
  const bool alike =
      (reinterpret_cast<std::uintptr_t>(logits) - reinterpret_cast<std::uintptr_t>(dx)) % 16 == 0;
  const bool wide = s.classes > kWarpClasses;
  auto* kernel = wide ? logit_gradients<T, V, kRowThreads> : logit_gradients<T, V, kWarp>;
  if (!alike) kernel = wide ? logit_gradients<T, 1, kRowThreads> : logit_gradients<T, 1, kWarp>;
  launch(kernel, row_blocks(s.rows(), wide ? kRowThreads : kWarp), kRowThreads, on, s, smoothing,
         logits, kept, labels, factor, dx);
}

#define HETPIPE_LOSS(T)                                                                      \
  template void loss_forward(const LossSizes&, float, const T*, const std::int32_t*, float*, \
                             std::int32_t*, SoftmaxSums*, std::int32_t*, void*, On);         \
  template void loss_backward(const LossSizes&, float, const T*, const SoftmaxSums*,         \
                              const std::int32_t*, float, T*, On);
HETPIPE_LOSS(float)
HETPIPE_LOSS(Bf16)
HETPIPE_LOSS(Fp16)

}  // namespace hetpipe::cuda
