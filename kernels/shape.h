// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/error.h"

namespace hetpipe {

class Json;

// Extents of a tensor, outermost first. Images are (N, H, W, C): samples, rows, columns, channels,
// the channel varying fastest; features are (N, F). Parameter shapes are stated where they are
// declared.
class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents)
      : Shape(std::span(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const std::int64_t> extents) {
    ensure(extents.size() <= kMaxRank, "a shape has at most eight extents");
    for (std::int64_t e : extents) extents_[static_cast<std::size_t>(rank_++)] = e;
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int i) const { return extents_[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return extents_[static_cast<std::size_t>(i)]; }
  std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= extents_[static_cast<std::size_t>(i)];
    return n;
  }
  // The same shape with another number of samples (extent 0).
  Shape with_batch(std::int64_t batch) const {
    Shape s = *this;
    s[0] = batch;
    return s;
  }
  bool operator==(const Shape&) const = default;

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

// Rows and columns; one number means both.
struct Sides {
  int rows = 0;
  int columns = 0;

  Sides(int both) : rows(both), columns(both) {}  // NOLINT: a kernel of 3 is one of 3x3
  Sides(int r, int c) : rows(r), columns(c) {}
  bool operator==(const Sides&) const = default;
};

// As an array.
Json to_json(const Shape& shape);
void from_json(const Json& json, Shape& shape);

inline std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (int i = 0; i < shape.rank(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

}  // namespace hetpipe
