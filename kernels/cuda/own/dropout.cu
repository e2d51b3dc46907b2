// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/dropout.h"

#include "base/random.h"
#include "kernels/cuda/own/pack.h"
#include "kernels/dropout.h"

// Compiled without contraction, so that fp32 has the bits of the definition.
namespace hetpipe::cuda {
namespace {

// y = kept ? x * scale + shift : dropped
struct Affine {
  float scale, shift, dropped;

  HETPIPE_DEVICE float operator()(bool kept, float x) const {
    return kept ? x * scale + shift : dropped;
  }
};
// y = kept ? x * scale : 0. Beside Affine, whose + 0 would make +0 of -0.
struct Scaled {
  float scale;

  HETPIPE_DEVICE float operator()(bool kept, float x) const { return kept ? x * scale : 0.0f; }
};

// A thread draws whole Philox blocks, of four elements each: packs are counted inside each sample.
template <class T, class F>
struct Drop {
  static constexpr int pack = kPack<T>;
  static_assert(pack % 4 == 0);
  const std::uint64_t* keys;
  std::int64_t elements, packs;  // of a sample
  float rate;
  F f;
  const T* x;
  const T* residual;  // null: none
  std::uint8_t* kept;
  T* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t sample = i / packs;
    const std::int64_t first = i % packs * pack;
    const std::int64_t at = sample * elements + first, left = elements - first;
    const auto from = load<pack>(x + at, left);
    Pack<T, pack> sum{};
    if (residual != nullptr) sum = load<pack>(residual + at, left);
    Pack<std::uint8_t, pack> keep;
    Pack<T, pack> to;
    const std::uint64_t key = keys[sample];
    HETPIPE_UNROLL
    for (int four = 0; four < pack / 4; ++four) {
      const auto block = static_cast<std::uint64_t>(first / 4 + four);
      const PhiloxBlock drawn = random_block(key, block);
      HETPIPE_UNROLL
      for (int k = 0; k < 4; ++k) {
        const int e = four * 4 + k;
        keep.at[e] = uniform_float(drawn[static_cast<std::size_t>(k)]) >= rate;
        float value = f(keep.at[e] != 0, static_cast<float>(from.at[e]));
        if (residual != nullptr) value += static_cast<float>(sum.at[e]);
        to.at[e] = T(value);
      }
    }
    store(kept + at, keep, left);
    store(y + at, to, left);
  }
};

// Draws that several elements of a sample share; neighbours take different ones.
template <class T>
struct DropShared {
  const std::uint64_t* keys;
  std::int64_t elements, draws;  // of a sample
  float rate;
  Scaled f;
  const T* x;
  const T* residual;  // null: none
  std::uint8_t* kept;
  T* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t sample = i / elements;
    const auto draw = static_cast<std::uint64_t>(i % elements % draws);
    const PhiloxBlock drawn = random_block(keys[sample], draw / 4);
    const bool keep = uniform_float(drawn[static_cast<std::size_t>(draw % 4)]) >= rate;
    float value = f(keep, static_cast<float>(x[i]));
    if (residual != nullptr) value += static_cast<float>(residual[i]);
    kept[i] = keep ? 1 : 0;
    y[i] = T(value);
  }
};

template <class T>
struct DropBackward {
  static constexpr int pack = kPack<T>;
  const std::uint8_t* kept;
  Scaled f;
  const T* dy;
  T* dx;
  T* dresidual;  // null, like dx: not wanted

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    const auto from = load<pack>(dy + i, left);
    if (dx != nullptr) {
      const auto keep = load<pack>(kept + i, left);
      Pack<T, pack> to;
      HETPIPE_UNROLL
      for (int k = 0; k < pack; ++k) {
        to.at[k] = T(f(keep.at[k] != 0, static_cast<float>(from.at[k])));
      }
      store(dx + i, to, left);
    }
    if (dresidual != nullptr && dresidual != dy) store(dresidual + i, from, left);
  }
};

template <class T, class F>
void drop(const F& f, const std::uint64_t* keys, std::int64_t samples, std::int64_t elements,
          float rate, const T* x, const T* residual, std::uint8_t* kept, T* y, On on) {
  const std::int64_t packs = (elements + kPack<T> - 1) / kPack<T>;
  each<1>(Drop<T, F>{keys, elements, packs, rate, f, x, residual, kept, y}, samples * packs, on);
}

template <class T>
void drop_backward(float factor, const std::uint8_t* kept, std::int64_t count, const T* dy, T* dx,
                   T* dresidual, On on) {
  each<kPack<T>>(DropBackward<T>{kept, {factor}, dy, dx, dresidual}, count, on);
}

AlphaDropoutMap map_of(float rate) { return AlphaDropoutMap(static_cast<double>(rate)); }

}  // namespace

template <class T>
void dropout_forward(const std::uint64_t* keys, std::int64_t samples, std::int64_t elements,
                     std::int64_t draws, float rate, const T* x, const T* residual,
                     std::uint8_t* kept, T* y, On on) {
  if (draws != 0) {
    return each<1>(
        DropShared<T>{keys, elements, draws, rate, Scaled{1 / (1 - rate)}, x, residual, kept, y},
        samples * elements, on);
  }
  drop(Scaled{1 / (1 - rate)}, keys, samples, elements, rate, x, residual, kept, y, on);
}
template <class T>
void dropout_backward(const std::uint8_t* kept, std::int64_t count, float rate, const T* dy, T* dx,
                      T* dresidual, On on) {
  drop_backward(1 / (1 - rate), kept, count, dy, dx, dresidual, on);
}

template <class T>
void alpha_dropout_forward(const std::uint64_t* keys, std::int64_t samples, std::int64_t elements,
                           float rate, const T* x, std::uint8_t* kept, T* y, On on) {
  const AlphaDropoutMap map = map_of(rate);
  const Affine f{static_cast<float>(map.scale), static_cast<float>(map.shift),
                 static_cast<float>(map.dropped)};
  drop<T>(f, keys, samples, elements, rate, x, nullptr, kept, y, on);
}
template <class T>
void alpha_dropout_backward(const std::uint8_t* kept, std::int64_t count, float rate, const T* dy,
                            T* dx, On on) {
  drop_backward<T>(static_cast<float>(map_of(rate).scale), kept, count, dy, dx, nullptr, on);
}

#define HETPIPE_DROPOUT(T)                                                                        \
  template void dropout_forward(const std::uint64_t*, std::int64_t, std::int64_t, std::int64_t,   \
                                float, const T*, const T*, std::uint8_t*, T*, On);                \
  template void dropout_backward(const std::uint8_t*, std::int64_t, float, const T*, T*, T*, On); \
  template void alpha_dropout_forward(const std::uint64_t*, std::int64_t, std::int64_t, float,    \
                                      const T*, std::uint8_t*, T*, On);                           \
  template void alpha_dropout_backward(const std::uint8_t*, std::int64_t, float, const T*, T*, On);
HETPIPE_DROPOUT(float)
HETPIPE_DROPOUT(Bf16)
HETPIPE_DROPOUT(Fp16)

}  // namespace hetpipe::cuda
