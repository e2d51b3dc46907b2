// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/lstm.h"

#include "kernels/reference/lstm.h"
#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace lstm_test {

using namespace test;
using Numbers = std::vector<double>;

template <class T>
class OwnLstm : public testing::Test {};
TYPED_TEST_SUITE(OwnLstm, ElementTypes);

template <class T>
struct Forward {
  Array<T> gates, h;
  Array<float> cells;
  std::vector<std::byte> bits() const { return bits_of(gates, h, cells); }
};
template <class T>
struct Backward {
  Array<T> dgates;
  Array<float> dcells;
  std::vector<std::byte> bits() const { return bits_of(dgates, dcells); }
};

// Two steps lie in each row of (N, 2, W): the second is computed after the first. The array number
// `off` does not begin at 16 bytes.
template <class T>
void expect_steps(std::int64_t batch, std::int64_t hidden, bool bias, int off) {
  SCOPED_TRACE(testing::Message() << batch << " x " << hidden << ", array " << off);
  const auto at = [off](int array) { return array == off ? 1 : 0; };
  const LstmStep s{batch, hidden};
  const std::int64_t rows = 2 * batch;
  const Numbers sums = normal<float>(rows * 4 * hidden, 81, 0, 2),
                shift = normal<float>(4 * hidden, 82);
  const Array<float> device_sums(sums, at(0)), device_bias(shift, batch % 4);
  const float* const added = bias ? device_bias.data() : nullptr;
  // The rows of step t of an array whose rows have `width` elements.
  const auto step = []<class P>(P* first, std::int64_t t, std::int64_t width) {
    return StepRows<P>{first + t * width, 2 * width};
  };
  const auto got = in_both_orders([&] {
    Forward<T> r{Array<T>(rows * 4 * hidden, at(1)), Array<T>(rows * hidden, at(2)),
                 Array<float>(rows * hidden, at(3))};
    for (const std::int64_t t : {0, 1}) {
      const float* const cells = r.cells.data();
      lstm_step_forward<T>(s, step(const_cast<const float*>(device_sums.data()), t, 4 * hidden),
                           added, t == 0 ? StepRows<const float>{} : step(cells, 0, hidden),
                           step(r.gates.data(), t, 4 * hidden), step(r.cells.data(), t, hidden),
                           step(r.h.data(), t, hidden), nullptr);
    }
    return r;
  });
  Numbers gates = sums, cells(static_cast<std::size_t>(rows * hidden)), h(cells.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    double* const own = gates.data() + r * 4 * hidden;
    for (std::int64_t k = 0; bias && k < 4 * hidden; ++k)
      own[k] += shift[static_cast<std::size_t>(k)];
    reference::lstm_cell(hidden, own, r % 2 == 0 ? nullptr : cells.data() + (r - 1) * hidden,
                         cells.data() + r * hidden, h.data() + r * hidden);
  }
  // The gates are rounded to T before they enter the cell.
  const double slack = 1e-6 + (std::is_same_v<T, float> ? 0 : 4 * rounding<T>());
  expect_close(got.gates, gates, 1e-6, "gates");
  expect_close(got.cells, cells, slack, "cells");
  expect_close(got.h, h, slack, "h");

  const Numbers dy = normal<T>(rows * hidden, 83), recurrent = normal<float>(batch * hidden, 84);
  const Array<T> device_dy(dy, at(4));
  const Array<float> device_recurrent(recurrent, at(5));
  const T* const dys = device_dy.data();
  const T* const kept = got.gates.data();
  const float* const kept_cells = got.cells.data();
  const auto back = in_both_orders([&] {
    Backward<T> r{Array<T>(rows * 4 * hidden, at(6)), Array<float>(batch * hidden, at(7))};
    for (const std::int64_t t : {1, 0}) {
      lstm_step_backward<T>(s, t == 1 ? StepPlace::last : StepPlace::before_another,
                            step(kept, t, 4 * hidden),
                            t == 0 ? StepRows<const float>{} : step(kept_cells, 0, hidden),
                            step(kept_cells, t, hidden), step(dys, t, hidden),
                            t == 1 ? nullptr : device_recurrent.data(), r.dcells.data(),
                            step(r.dgates.data(), t, 4 * hidden), nullptr);
    }
    return r;
  });
  const Numbers own_gates = got.gates.numbers(), own_cells = got.cells.numbers();
  Numbers dgates(own_gates.size()), dcells(static_cast<std::size_t>(batch * hidden));
  for (const std::int64_t t : {1, 0})
    for (std::int64_t n = 0; n < batch; ++n) {
      const std::int64_t r = 2 * n + t;
      Numbers dh(dy.begin() + r * hidden, dy.begin() + (r + 1) * hidden);
      for (std::int64_t k = 0; t == 0 && k < hidden; ++k)
        dh[static_cast<std::size_t>(k)] += recurrent[static_cast<std::size_t>(n * hidden + k)];
      reference::lstm_cell_gradient(hidden, own_gates.data() + r * 4 * hidden,
                                    t == 0 ? nullptr : own_cells.data() + (r - 1) * hidden,
                                    own_cells.data() + r * hidden, dh.data(),
                                    dcells.data() + n * hidden, dgates.data() + r * 4 * hidden);
    }
  expect_close(back.dgates, dgates, 2e-6, "dgates");
  expect_close(back.dcells, dcells, 2e-6, "dcells");
}

TYPED_TEST(OwnLstm, Steps) {
  for (const std::int64_t hidden : {1, 3, 4, 8, 50, 256})
    for (const std::int64_t batch : {1, 2, 9})
      for (const bool bias : {false, true}) expect_steps<TypeParam>(batch, hidden, bias, -1);
}

TYPED_TEST(OwnLstm, Unaligned) {
  for (int array = 0; array < 8; ++array) expect_steps<TypeParam>(5, 16, true, array);
}

TYPED_TEST(OwnLstm, LargeSumsSaturate) {
  const Array<float> sums(Numbers{-1000, 1000, 1000, 1000}), cells(1);
  const Array<TypeParam> gates(4), h(1);
  const float* const given = sums.data();
  lstm_step_forward<TypeParam>({1, 1}, {given, 4}, nullptr, {}, {gates.data(), 4},
                               {cells.data(), 1}, {h.data(), 1}, nullptr);
  EXPECT_EQ(gates.numbers(), (Numbers{0, 1, 1, 1}));
  EXPECT_EQ(number(h.data()[0]), 0);
}

TEST(OwnLstmInPlace, GatesTakeThePlaceOfSums) {
  const Numbers sums = normal<float>(2 * 4 * 8, 85);
  const Array<float> apart(sums), gates(64), together(sums), cells(16), h(16);
  const auto run = [&](float* in, float* out) {
    lstm_step_forward<float>({2, 8}, {in, 32}, nullptr, {}, {out, 32}, {cells.data(), 8},
                             {h.data(), 8}, nullptr);
  };
  run(apart.data(), gates.data());
  run(together.data(), together.data());
  EXPECT_TRUE(together.bits() == gates.bits());
}

}  // namespace lstm_test
}  // namespace hetpipe::cuda
