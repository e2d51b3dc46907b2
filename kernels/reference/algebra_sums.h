// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/reference/algebra.h"
#include "kernels/shape.h"

// Reductions, products, softmax and cumulative sums of kernels/algebra.h. Sums run in double, in
// one order.
namespace hetpipe::reference {

inline bool is_maximum(Reduce::Kind kind) {
  return kind == Reduce::Kind::maximum || kind == Reduce::Kind::first_maximum;
}
inline bool is_sum(Reduce::Kind kind) {
  return kind == Reduce::Kind::sum || kind == Reduce::Kind::mean;
}

// The largest or smallest of `values`; NaN where one is.
inline double extreme(Reduce::Kind kind, std::span<const double> values) {
  double best = values[0];
  for (const double v : values) {
    if (std::isnan(v)) return v;
    if (is_maximum(kind) ? v > best : v < best) best = v;
  }
  return best;
}

template <class T>
void reduce_forward(const Reduce& r, const Tensors<T>& t, T* y) {
  const Extents places = places_of(r.from, joined({r.kept, r.reduced}));
  const std::int64_t kept = product_of(r.kept), reduced = product_of(r.reduced);
  std::vector<double> values(static_cast<std::size_t>(reduced));
  for (std::int64_t n = 0; n < t.samples; ++n)
    for (std::int64_t k = 0; k < kept; ++k) {
      for (std::int64_t i = 0; i < reduced; ++i)
        values[static_cast<std::size_t>(i)] =
            t.read(r.from, n, places[static_cast<std::size_t>(k * reduced + i)]);
      double value = std::accumulate(values.begin(), values.end(), 0.0);
      if (r.kind == Reduce::Kind::mean) value /= static_cast<double>(reduced);
      if (!is_sum(r.kind)) value = extreme(r.kind, values);
      *y++ = static_cast<T>(value);
    }
}

// What each of `values` gets of the gradient 1 of their reduction.
inline std::vector<double> shares(Reduce::Kind kind, std::span<const double> values) {
  std::vector<double> share(values.size(), 0.0);
  if (is_sum(kind)) {
    const double one = kind == Reduce::Kind::sum ? 1.0 : 1.0 / static_cast<double>(values.size());
    share.assign(values.size(), one);
    return share;
  }
  const double best = extreme(kind, values);
  const bool first = kind == Reduce::Kind::first_maximum || kind == Reduce::Kind::first_minimum;
  double winners = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool won = values[i] == best || (std::isnan(values[i]) && std::isnan(best));
    if (!won || (first && winners > 0)) continue;
    share[i] = 1;
    winners += 1;
  }
  for (double& s : share) s /= winners;
  return share;
}

template <class T>
void reduce_backward(const Reduce& r, const Tensors<T>& t, const T* dy, Gradients<T>& gradients) {
  const Extents places = places_of(r.from, joined({r.kept, r.reduced}));
  const std::int64_t kept = product_of(r.kept), reduced = product_of(r.reduced);
  std::vector<double> values(static_cast<std::size_t>(reduced));
  for (std::int64_t n = 0; n < t.samples; ++n)
    for (std::int64_t k = 0; k < kept; ++k, ++dy) {
      const std::int64_t* const place = places.data() + k * reduced;
      for (std::int64_t i = 0; i < reduced && !is_sum(r.kind); ++i)
        values[static_cast<std::size_t>(i)] = t.read(r.from, n, place[i]);
      const std::vector<double> share = shares(r.kind, values);
      for (std::int64_t i = 0; i < reduced; ++i)
        gradients.add(r.from, n, place[i],
                      share[static_cast<std::size_t>(i)] * static_cast<double>(*dy));
    }
}

// The element of the output at (batch, row, column), for all of these in order.
inline Extents output_places(const Product& p) {
  const Extents loops = joined({p.batch, {p.rows, p.columns}});
  Extents strides(loops.size());
  std::int64_t stride = 1;
  for (std::size_t i = loops.size(); i-- > 0;) {
    const std::size_t loop = p.order.empty() ? i : static_cast<std::size_t>(p.order[i]);
    strides[loop] = stride;
    stride *= loops[loop];
  }
  return sums_of(loops, strides);
}

struct ProductPlaces {
  Extents a, b, output;
  std::int64_t batches;

  explicit ProductPlaces(const Product& p)
      : a(places_of(p.a, joined({p.batch, {p.rows, p.inner}}))),
        b(places_of(p.b, joined({p.batch, {p.inner, p.columns}}))),
        output(output_places(p)),
        batches(product_of(p.batch)) {}
};

// visit(row and column's number, a's, b's) for all terms of a batch's product.
template <class Visit>
void for_each_term(const Product& p, std::int64_t batch, const Visit& visit) {
  for (std::int64_t r = 0; r < p.rows; ++r)
    for (std::int64_t c = 0; c < p.columns; ++c)
      for (std::int64_t k = 0; k < p.inner; ++k)
        visit(static_cast<std::size_t>((batch * p.rows + r) * p.columns + c),
              static_cast<std::size_t>((batch * p.rows + r) * p.inner + k),
              static_cast<std::size_t>((batch * p.inner + k) * p.columns + c));
}

template <class T>
void product_forward(const Product& p, const Tensors<T>& t, T* y) {
  const ProductPlaces places(p);
  const auto elements = static_cast<std::int64_t>(places.output.size());
  std::vector<double> sums(places.output.size());
  for (std::int64_t n = 0; n < t.samples; ++n) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (std::int64_t b = 0; b < places.batches; ++b)
      for_each_term(p, b, [&](std::size_t o, std::size_t i, std::size_t j) {
        sums[o] += t.read(p.a, n, places.a[i]) * t.read(p.b, n, places.b[j]);
      });
    for (std::size_t o = 0; o < sums.size(); ++o)
      y[n * elements + places.output[o]] = static_cast<T>(static_cast<double>(p.scale) * sums[o]);
  }
}

template <class T>
void product_backward(const Product& p, const Tensors<T>& t, const T* dy, Gradients<T>& gradients) {
  const ProductPlaces places(p);
  const auto elements = static_cast<std::int64_t>(places.output.size());
  for (std::int64_t n = 0; n < t.samples; ++n)
    for (std::int64_t b = 0; b < places.batches; ++b)
      for_each_term(p, b, [&](std::size_t o, std::size_t i, std::size_t j) {
        const double g =
            static_cast<double>(p.scale) * static_cast<double>(dy[n * elements + places.output[o]]);
        if (gradients.wanted(p.a))
          gradients.add(p.a, n, places.a[i], g * t.read(p.b, n, places.b[j]));
        if (gradients.wanted(p.b))
          gradients.add(p.b, n, places.b[j], g * t.read(p.a, n, places.a[i]));
      });
}

// x, y (rows, features)
template <class T>
void softmax_forward(const Softmax& s, std::int64_t rows, std::int64_t features, const T* x, T* y) {
  for (std::int64_t r = 0; r < rows; ++r, x += features, y += features) {
    const double largest = static_cast<double>(*std::max_element(x, x + features));
    double sum = 0;
    for (std::int64_t i = 0; i < features; ++i)
      sum += std::exp(static_cast<double>(x[i]) - largest);
    const double logarithm = std::log(sum);
    for (std::int64_t i = 0; i < features; ++i) {
      const double v = static_cast<double>(x[i]) - largest;
      y[i] = static_cast<T>(s.logarithm ? v - logarithm : std::exp(v) / sum);
    }
  }
}

// dx = y (dy - sum y dy), of the logarithm dy - e^y sum dy; dx may be dy.
template <class T>
void softmax_backward(const Softmax& s, std::int64_t rows, std::int64_t features, const T* y,
                      const T* dy, T* dx) {
  for (std::int64_t r = 0; r < rows; ++r, y += features, dy += features, dx += features) {
    double sum = 0;
    for (std::int64_t i = 0; i < features; ++i)
      sum += static_cast<double>(dy[i]) * (s.logarithm ? 1.0 : static_cast<double>(y[i]));
    for (std::int64_t i = 0; i < features; ++i) {
      const double g = static_cast<double>(dy[i]), v = static_cast<double>(y[i]);
      dx[i] = static_cast<T>(s.logarithm ? g - std::exp(v) * sum : v * (g - sum));
    }
  }
}

// How a tensor lies around the extent that is summed along.
struct CumulativeSizes {
  std::int64_t outer = 1, places = 1, features = 1;

  explicit CumulativeSizes(const Shape& in) {
    const int along = in.rank() == 2 ? 1 : in.rank() - 2;
    for (int i = 0; i < in.rank(); ++i)
      (i < along ? outer : i == along ? places : features) *= in[i];
  }
};

// y[t] = sum over u <= t of x[u], or over u >= t where `from_end`: the gradient of the former.
template <class T>
void cumulative_sum(const CumulativeSizes& s, bool from_end, const T* x, T* y) {
  for (std::int64_t o = 0; o < s.outer; ++o)
    for (std::int64_t f = 0; f < s.features; ++f) {
      double sum = 0;
      for (std::int64_t t = 0; t < s.places; ++t) {
        const std::int64_t place = from_end ? s.places - 1 - t : t;
        const std::int64_t at = (o * s.places + place) * s.features + f;
        sum += static_cast<double>(x[at]);
        y[at] = static_cast<T>(sum);
      }
    }
}

}  // namespace hetpipe::reference
