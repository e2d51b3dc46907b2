// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/masked_softmax.h"

#include "base/random.h"
#include "kernels/cuda/own/rows.h"

namespace hetpipe::cuda {
namespace {

// A row's place, and how many keys its query sees.
struct ScoreRow {
  std::int64_t sample, head, query, seen;

  HETPIPE_DEVICE ScoreRow(const ScoreRows& s, std::int64_t row)
      : sample(row / (s.heads * s.queries)),
        head(row / s.queries % s.heads),
        query(row % s.queries),
        seen(s.causal && query + 1 < s.keys ? query + 1 : s.keys) {}
};

// The mask along one row.
template <class T>
struct MaskRow {
  const void* values;
  const std::int32_t* table;
  bool floats;
  std::int64_t first, step, entry, entry_step;

  HETPIPE_DEVICE MaskRow(const ScoreMask& m, const ScoreRow& row)
      : values(m.values),
        table(m.table),
        floats(m.floats),
        first(row.sample * m.by_sample + m.offset + row.head * m.strides[0] +
              row.query * m.strides[1]),
        step(m.strides[2]),
        entry(row.head * m.table_strides[0] + row.query * m.table_strides[1]),
        entry_step(m.table_strides[2]) {}
  HETPIPE_DEVICE float at(std::int64_t key) const {
    if (values == nullptr) return 0;
    std::int64_t place = first + key * step;
    if (table != nullptr) place += table[entry + key * entry_step];
    return floats ? static_cast<const float*>(values)[place]
                  : static_cast<float>(static_cast<const T*>(values)[place]);
  }
};

// Which keys dropout keeps; four neighbours share a block of draws.
struct DrawnRow {
  bool any;
  std::uint64_t key;
  std::uint64_t first;  // element of the sample
  float rate;
  std::uint64_t drawn = ~std::uint64_t{0};  // which block
  PhiloxBlock block{};

  HETPIPE_DEVICE DrawnRow(const ScoreRows& s, const ScoreRow& row)
      : any(s.sample_keys != nullptr),
        key(any ? s.sample_keys[row.sample] : 0),
        first(static_cast<std::uint64_t>((row.head * s.queries + row.query) * s.keys)),
        rate(s.rate) {}
  HETPIPE_DEVICE bool keeps(std::int64_t at) {
    const std::uint64_t element = first + static_cast<std::uint64_t>(at);
    if (element / 4 != drawn) {
      drawn = element / 4;
      block = random_block(key, drawn);
    }
    return uniform_float(block[static_cast<std::size_t>(element % 4)]) >= rate;
  }
};

template <class T>
struct MaskedSoftmax {
  ScoreRows s;
  const float* scores;
  T* probabilities;
  T* dropped;

  template <int V, int kTeam, bool held>
  HETPIPE_DEVICE void operator()(RowForm<V, kTeam, held> form, std::int64_t row) const {
    const ScoreRow place(s, row);
    const MaskRow<T> mask(s.mask, place);
    RowPacks<float, V, held> own(scores + row * s.keys);
    const auto masked = [&](std::int64_t first, Pack<float, V> pack) {
      for (int v = 0; v < V; ++v) {
        pack.at[v] = first + v < place.seen ? pack.at[v] * s.scale + mask.at(first + v) : -INFINITY;
      }
      return pack;
    };
    // A held row's values are kept masked.
    form.for_packs(place.seen, [&](int p, std::int64_t first) {
      own.read(p, first);
      if constexpr (held) own.kept[p] = masked(first, own.kept[p]);
    });
    const auto get = [&](int p, std::int64_t first) {
      if constexpr (held) return own.get(p, first);
      return masked(first, own.get(p, first));
    };
    float largest = -INFINITY;
    form.for_packs(place.seen, [&](int p, std::int64_t first) {
      const auto pack = get(p, first);
      for (int v = 0; v < V; ++v) largest = Larger{}(largest, pack.at[v]);
    });
    largest = team_reduce<kTeam>(largest, Larger{});
    const float shift = largest == -INFINITY ? 0 : largest;
    float sum = 0;
    form.for_packs(place.seen, [&](int p, std::int64_t first) {
      const auto pack = get(p, first);
      for (int v = 0; v < V; ++v) sum += expf(pack.at[v] - shift);
    });
    sum = team_reduce<kTeam>(sum, Plus{});
    const float inverse = sum == 0 ? 0 : 1 / sum;
    const float factor = 1 / (1 - s.rate);
    DrawnRow drawn(s, place);
    form.for_packs(s.keys, [&](int p, std::int64_t first) {
      Pack<T, V> out{}, weights{};
      if (first < place.seen) {
        const auto pack = get(p, first);
        for (int v = 0; v < V; ++v) {
          const float value = expf(pack.at[v] - shift) * inverse;
          out.at[v] = static_cast<T>(value);
          if (!drawn.any) continue;
          if (drawn.keeps(first + v)) {
            weights.at[v] = static_cast<T>(value * factor);
          } else {
            out.at[v] = static_cast<T>(-value);
          }
        }
      }
      store_pack(probabilities + row * s.keys + first, out);
      if (drawn.any) store_pack(dropped + row * s.keys + first, weights);
    });
  }
};

template <class T>
struct MaskedSoftmaxGradient {
  ScoreRows s;
  const T* probabilities;
  const float* dprobabilities;
  T* dscores;
  T* dropped;

  template <int V, int kTeam, bool held>
  HETPIPE_DEVICE void operator()(RowForm<V, kTeam, held> form, std::int64_t row) const {
    const ScoreRow place(s, row);
    const bool drops = s.rate > 0;
    const float factor = 1 / (1 - s.rate);
    RowPacks<T, V, held> ps(probabilities + row * s.keys);
    RowPacks<float, V, held> dps(dprobabilities + row * s.keys);
    form.for_packs(place.seen, [&](int p, std::int64_t first) {
      ps.read(p, first);
      dps.read(p, first);
    });
    // A dropped element's probability has a minus sign.
    const auto kept = [&](float signed_probability) {
      return !drops ? 1.0f : signed_probability > 0 ? factor : 0.0f;
    };
    const auto positive = [](float x) { return x < 0 ? -x : x; };
    float sum = 0;
    form.for_packs(place.seen, [&](int p, std::int64_t first) {
      const auto a = ps.get(p, first);
      const auto b = dps.get(p, first);
      for (int v = 0; v < V; ++v) {
        const float value = static_cast<float>(a.at[v]);
        if (first + v < place.seen) sum += positive(value) * kept(value) * b.at[v];
      }
    });
    sum = team_reduce<kTeam>(sum, Plus{});
    form.for_packs(s.keys, [&](int p, std::int64_t first) {
      Pack<T, V> out{}, weights{};
      if (first < place.seen) {
        const auto a = ps.get(p, first);
        const auto b = dps.get(p, first);
        for (int v = 0; v < V; ++v) {
          if (first + v >= place.seen) continue;
          const float value = static_cast<float>(a.at[v]), m = kept(value);
          out.at[v] = static_cast<T>(positive(value) * (m * b.at[v] - sum));
          weights.at[v] = static_cast<T>(positive(value) * m);
        }
      }
      store_pack(dscores + row * s.keys + first, out);
      if (drops) store_pack(dropped + row * s.keys + first, weights);
    });
  }
};

}  // namespace

template <class T>
void masked_softmax_forward(const ScoreRows& s, const float* scores, T* probabilities, T* dropped,
                            On on) {
  if (s.rows() == 0) return;
  launch_rows<T>(s.rows(), s.keys, moves_in_packs<T>(s.keys, {scores, probabilities, dropped}),
                 MaskedSoftmax<T>{s, scores, probabilities, dropped}, on);
}

template <class T>
void masked_softmax_backward(const ScoreRows& s, const T* probabilities,
                             const float* dprobabilities, T* dscores, T* dropped, On on) {
  if (s.rows() == 0) return;
  launch_rows<T>(s.rows(), s.keys,
                 moves_in_packs<T>(s.keys, {probabilities, dprobabilities, dscores, dropped}),
                 MaskedSoftmaxGradient<T>{s, probabilities, dprobabilities, dscores, dropped}, on);
}

#define HETPIPE_MASKED_SOFTMAX(T)                                                   \
  template void masked_softmax_forward(const ScoreRows&, const float*, T*, T*, On); \
  template void masked_softmax_backward(const ScoreRows&, const T*, const float*, T*, T*, On);
HETPIPE_MASKED_SOFTMAX(float)
HETPIPE_MASKED_SOFTMAX(Bf16)
HETPIPE_MASKED_SOFTMAX(Fp16)

}  // namespace hetpipe::cuda
