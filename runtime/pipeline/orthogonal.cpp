// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/orthogonal.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/index.h"

namespace hetpipe {
namespace {

Operand input(int index, std::vector<std::int64_t> strides) {
  return {.source = Source::input, .index = index, .offset = 0, .strides = std::move(strides)};
}

}  // namespace

float orthogonal_scale(std::int64_t rows, std::int64_t columns) {
  return static_cast<float>(0.2 * std::sqrt(static_cast<double>(std::max(rows, columns))));
}

Orthogonalizer::Orthogonalizer(Device& device, Stream& stream, std::int64_t rows,
                               std::int64_t columns)
    : device_(device),
      stream_(stream),
      count_(rows * columns),
      side_(std::min(rows, columns)),
      squares_(device, stream, 2 * sizeof(double), MemoryKind::workspace) {
  static constexpr double kOne = 1;  // for as long as the copy may take
  device.copy(stream, squares_.data(), reinterpret_cast<const std::byte*>(&kOne), sizeof kOne);
  const std::int64_t m = side_, n = count_ / side_;
  // X[i, k], i below m: where the rows are more, they are its columns.
  const bool upright = rows > columns;
  const std::int64_t i = upright ? 1 : n, k = upright ? m : 1;
  const auto kernel = [&](Product product, std::vector<Shape> inputs) {
    auto made = device.make_kernel(std::move(product), inputs, 0);
    made->prepare(false);
    return made;
  };
  const Shape x{1, count_}, a{1, m * m};
  gram_ = kernel({.a = input(0, {i, k}),
                  .b = input(1, {k, i}),
                  .batch = {},
                  .rows = m,
                  .columns = m,
                  .inner = n},
                 {x, x});
  square_ = kernel({.a = input(0, {m, 1}),
                    .b = input(1, {m, 1}),
                    .batch = {},
                    .rows = m,
                    .columns = m,
                    .inner = m,
                    .scale = kC / kB},
                   {a, a});
  step_ = kernel({.a = input(0, {m, 1}),
                  .b = input(1, {i, k}),
                  .batch = {},
                  .rows = m,
                  .columns = n,
                  .inner = m,
                  .scale = kB,
                  .order = upright ? std::vector<int>{1, 0} : std::vector<int>{}},
                 {a, x});
}

void Orthogonalizer::multiply(LayerKernel& kernel, const std::byte* left, const std::byte* right,
                              std::byte* out) {
  const std::array<const std::byte*, 2> inputs{left, right};
  ForwardArguments arguments;
  arguments.inputs = inputs;
  arguments.output = out;
  arguments.mode = Mode::evaluate;
  kernel.forward(stream_, arguments);
}

void Orthogonalizer::apply(float* d, float factor) {
  device_.sum_of_squares(stream_, squares_.as<double>() + 1, d, count_);
  device_.scale_by_trust(stream_, d, squares_.as<double>(), 1.0f, count_);
  const ElementType type = device_.element_type();
  const auto floats = [&](std::int64_t count) {
    return Buffer(device_, stream_, at(count) * sizeof(float), MemoryKind::workspace);
  };
  const auto elements = [&](std::int64_t count) {
    return Buffer(device_, stream_, at(count) * bytes_of(type), MemoryKind::workspace);
  };
  const bool narrow = type != ElementType::fp32;
  const std::int64_t squared = side_ * side_;
  Buffer gram = elements(squared), q = elements(squared), moved = elements(count_);
  Buffer x = narrow ? elements(count_) : Buffer();   // of d,
  Buffer wide = narrow ? floats(count_) : Buffer();  // and of what it is moved by
  for (int step = 0; step < kOrthogonalSteps; ++step) {
    if (narrow)
      device_.convert(stream_, x.data(), type, reinterpret_cast<std::byte*>(d), ElementType::fp32,
                      count_);
    const std::byte* const now = narrow ? x.data() : reinterpret_cast<const std::byte*>(d);
    multiply(*gram_, now, now, gram.data());
    multiply(*square_, gram.data(), gram.data(), q.data());
    device_.accumulate(stream_, q.data(), gram.data(), squared);
    multiply(*step_, q.data(), now, moved.data());
    if (narrow)
      device_.convert(stream_, wide.data(), ElementType::fp32, moved.data(), type, count_);
    device_.scale(stream_, d, kA, count_);
    device_.add(stream_, d, narrow ? wide.as<float>() : moved.as<float>(), count_);
  }
  device_.scale(stream_, d, factor, count_);
}

}  // namespace hetpipe
