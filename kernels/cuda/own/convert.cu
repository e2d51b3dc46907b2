// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/convert.h"

#include "kernels/cuda/own/pack.h"

namespace hetpipe::cuda {
namespace {

struct Same {
  HETPIPE_DEVICE float operator()(float x) const { return x; }
};

struct Pixel {
  HETPIPE_DEVICE float operator()(float x) const { return x / 255.0f; }
};

// Pixels that a mean is taken off.
template <class To>
struct ScaledPixels {
  static constexpr int pack = kPack<std::uint8_t>;
  PixelScale scale;
  const std::uint8_t* x;
  To* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    const auto from = load<pack>(x + i, left);
    Pack<To, pack> to;
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) to.at[k] = To(scaled(scale, from.at[k], i + k));
    store(y + i, to, left);
  }
};

// A block treats kStretch elements of a row of y. One element for each thread at a time: rows of
// odd lengths start anywhere, and so both sides are reached in runs.
constexpr std::int64_t kStretch = 8 * kThreads;

template <class From, class To>
HETPIPE_KERNEL void fit_kernel(const From* x, To* y, std::int64_t runs, std::int64_t from,
                               std::int64_t to) {
  const std::int64_t row = blockIdx.x / runs, first = blockIdx.x % runs * kStretch;
  HETPIPE_UNROLL
  for (int k = 0; k < 8; ++k) {
    const std::int64_t at = first + k * static_cast<int>(kThreads) + static_cast<int>(threadIdx.x);
    if (at < to)
      y[row * to + at] = at < from ? To(static_cast<float>(x[row * from + at])) : To(0.0f);
  }
}

// One output's matrix (inputs, taps) is turned into (taps, inputs) by way of shared memory, so that
// both sides are reached in runs: a piece of whole inputs is contiguous on the side of the model,
// and a run per tap on the other. Where the taps of one input alone are more than the piece, they
// are cut as well.
constexpr int kPiece = 4096;

struct Turn {
  std::int64_t outputs, inputs, taps;
  std::int64_t piece_inputs, piece_taps;  // of a piece: their product is at most kPiece
  std::int64_t input_pieces, tap_pieces;

  Turn(std::int64_t outputs_, std::int64_t inputs_, std::int64_t taps_)
      : outputs(outputs_),
        inputs(inputs_),
        taps(taps_),
        piece_inputs(std::clamp<std::int64_t>(kPiece / taps, 1, inputs)),
        piece_taps(std::min<std::int64_t>(taps, kPiece)),
        input_pieces((inputs + piece_inputs - 1) / piece_inputs),
        tap_pieces((taps + piece_taps - 1) / piece_taps) {}

  std::int64_t pieces() const { return outputs * input_pieces * tap_pieces; }
};

template <class T, bool to_krsc>
HETPIPE_KERNEL void turn_kernel(Turn t, const float* oihw_from, float* oihw_to, const T* krsc_from,
                                T* krsc_to) {
  HETPIPE_SHARED(tile, float[kPiece]);  // (inputs, taps) of the piece
  const std::int64_t of_output = t.input_pieces * t.tap_pieces;
  const std::int64_t output = blockIdx.x / of_output, rest = blockIdx.x % of_output;
  const std::int64_t first_input = rest / t.tap_pieces * t.piece_inputs;
  const std::int64_t first_tap = rest % t.tap_pieces * t.piece_taps;
  const int inputs = static_cast<int>(std::min(t.piece_inputs, t.inputs - first_input));
  const int taps = static_cast<int>(std::min(t.piece_taps, t.taps - first_tap));
  const int count = inputs * taps;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  // Either one input or all taps: so the model's side of the piece is one run.
  const std::int64_t oihw = (output * t.inputs + first_input) * t.taps + first_tap;
  const std::int64_t krsc = (output * t.taps + first_tap) * t.inputs + first_input;
  if constexpr (to_krsc) {
    for (int e = thread; e < count; e += threads) tile[e] = oihw_from[oihw + e];
    __syncthreads();
    for (int e = thread; e < count; e += threads) {
      const int tap = e / inputs, input = e % inputs;
      krsc_to[krsc + tap * t.inputs + input] = T(tile[input * taps + tap]);
    }
  } else {
    for (int e = thread; e < count; e += threads) {
      const int tap = e / inputs, input = e % inputs;
      tile[input * taps + tap] = static_cast<float>(krsc_from[krsc + tap * t.inputs + input]);
    }
    __syncthreads();
    for (int e = thread; e < count; e += threads) oihw_to[oihw + e] = tile[e];
  }
}

template <class T, bool to_krsc>
void turn(const Turn& t, const float* oihw_from, float* oihw_to, const T* krsc_from, T* krsc_to,
          On on) {
  if (t.pieces() == 0) return;
  launch(turn_kernel<T, to_krsc>, one_each(t.pieces()), kThreads, on, t, oihw_from, oihw_to,
         krsc_from, krsc_to);
}

}  // namespace

template <class From, class To>
void convert(const From* x, To* y, std::int64_t count, On on) {
  map(Same{}, x, y, count, on);
}

template <class From, class To>
void fit_rows(const From* x, To* y, std::int64_t rows, std::int64_t from, std::int64_t to, On on) {
  if (rows * to == 0) return;
  const std::int64_t runs = (to + kStretch - 1) / kStretch;
  launch(fit_kernel<From, To>, one_each(rows * runs), kThreads, on, x, y, runs, from, to);
}

template <class To>
void pixels(const std::uint8_t* x, To* y, std::int64_t count, const PixelScale& scale, On on) {
  if (scale.channels == 0) return map(Pixel{}, x, y, count, on);
  using Body = ScaledPixels<To>;
  each<Body::pack>(Body{scale, x, y}, count, on);
}
template <class To>
void tokens(const std::uint16_t* x, To* y, std::int64_t count, On on) {
  map(Same{}, x, y, count, on);
}

template <class T>
void weights_to_krsc(const float* weights, T* krsc, std::int64_t outputs, std::int64_t inputs,
                     std::int64_t taps, On on) {
  if (taps == 1) return convert(weights, krsc, outputs * inputs, on);
  turn<T, true>({outputs, inputs, taps}, weights, nullptr, nullptr, krsc, on);
}
template <class T>
void gradient_from_krsc(const T* krsc, float* gradient, std::int64_t outputs, std::int64_t inputs,
                        std::int64_t taps, On on) {
  if (taps == 1) return convert(krsc, gradient, outputs * inputs, on);
  turn<T, false>({outputs, inputs, taps}, nullptr, gradient, krsc, nullptr, on);
}

#define HETPIPE_CONVERT(From, To) template void convert(const From*, To*, std::int64_t, On);
HETPIPE_CONVERT(float, float)
HETPIPE_CONVERT(float, Bf16)
HETPIPE_CONVERT(float, Fp16)
HETPIPE_CONVERT(Bf16, float)
HETPIPE_CONVERT(Bf16, Bf16)
HETPIPE_CONVERT(Bf16, Fp16)
HETPIPE_CONVERT(Fp16, float)
HETPIPE_CONVERT(Fp16, Bf16)
HETPIPE_CONVERT(Fp16, Fp16)

#define HETPIPE_FIT(From, To) \
  template void fit_rows(const From*, To*, std::int64_t, std::int64_t, std::int64_t, On);
HETPIPE_FIT(float, float)
HETPIPE_FIT(float, Bf16)
HETPIPE_FIT(float, Fp16)
HETPIPE_FIT(Bf16, Bf16)
HETPIPE_FIT(Fp16, Fp16)

#define HETPIPE_SAMPLES(T)                                                            \
  template void pixels(const std::uint8_t*, T*, std::int64_t, const PixelScale&, On); \
  template void tokens(const std::uint16_t*, T*, std::int64_t, On);
HETPIPE_SAMPLES(float)
HETPIPE_SAMPLES(Bf16)
HETPIPE_SAMPLES(Fp16)

#define HETPIPE_WEIGHTS(T)                                                                       \
  template void weights_to_krsc(const float*, T*, std::int64_t, std::int64_t, std::int64_t, On); \
  template void gradient_from_krsc(const T*, float*, std::int64_t, std::int64_t, std::int64_t, On);
HETPIPE_WEIGHTS(float)
HETPIPE_WEIGHTS(Bf16)
HETPIPE_WEIGHTS(Fp16)

}  // namespace hetpipe::cuda
