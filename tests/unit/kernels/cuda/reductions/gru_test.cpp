// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/gru.h"

#include "kernels/reference/recurrent.h"
#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace gru_test {

using namespace test;
using Numbers = std::vector<double>;

template <class T>
class OwnGru : public testing::Test {};
TYPED_TEST_SUITE(OwnGru, ElementTypes);

template <class T>
struct Forward {
  Array<T> h;
  Array<float> gates, kept;
  std::vector<std::byte> bits() const { return bits_of(gates, h, kept); }
};
template <class T>
struct Backward {
  Array<T> dinput, dstate;
  Array<float> beside;
  std::vector<std::byte> bits() const { return bits_of(dinput, dstate, beside); }
};

// Steps t = 0, 1 lie in each row of (N, 2, W).
template <class P>
StepRows<P> step(P* first, std::int64_t t, std::int64_t width) {
  return {first + t * width, 2 * width};
}

template <class T>
void expect_steps(std::int64_t batch, std::int64_t hidden, bool biased) {
  SCOPED_TRACE(testing::Message() << batch << " x " << hidden);
  const LstmStep s{batch, hidden};
  const std::int64_t rows = 2 * batch;
  const Numbers sums = normal<float>(rows * 3 * hidden, 91, 0, 2);
  const Numbers states = normal<float>(batch * 3 * hidden, 92);
  const Numbers input_bias = normal<float>(3 * hidden, 93),
                state_bias = normal<float>(3 * hidden, 94);
  const Array<float> device_sums(sums), device_states(states), of_input(input_bias),
      of_state(state_bias);
  const GruBiases biases{biased ? of_input.data() : nullptr, biased ? of_state.data() : nullptr};
  const auto got = in_both_orders([&] {
    Forward<T> r{Array<T>(rows * hidden), Array<float>(rows * 3 * hidden),
                 Array<float>(rows * hidden)};
    for (const std::int64_t t : {0, 1}) {
      const T* const h = r.h.data();
      const float* const given = device_sums.data();
      gru_step_forward<T>(s, step(given, t, 3 * hidden), t == 0 ? nullptr : device_states.data(),
                          biases, t == 0 ? StepRows<const T>{} : step(h, 0, hidden),
                          step(r.gates.data(), t, 3 * hidden), step(r.kept.data(), t, hidden),
                          step(r.h.data(), t, hidden), nullptr);
    }
    return r;
  });
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  Numbers gates = sums, kept(at(rows * hidden)), h(kept.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    double* const own = gates.data() + r * 3 * hidden;
    Numbers state(at(3 * hidden));
    for (std::int64_t k = 0; k < 3 * hidden; ++k) {
      if (biased) own[k] += input_bias[at(k)];
      state[at(k)] =
          (biased ? state_bias[at(k)] : 0) + (r % 2 == 0 ? 0 : states[at(r / 2 * 3 * hidden + k)]);
    }
    reference::gru_cell(hidden, own, state.data(),
                        r % 2 == 0 ? nullptr : h.data() + (r - 1) * hidden, h.data() + r * hidden);
    std::copy_n(state.data() + 2 * hidden, hidden, kept.data() + r * hidden);
  }
  // The state of the step before is rounded to T.
  const double slack = 2e-6 + (std::is_same_v<T, float> ? 0 : 2 * rounding<T>());
  expect_close(got.gates, gates, 2e-6, "gates");
  expect_close(got.kept, kept, 1e-6, "kept");
  expect_close(got.h, h, slack, "h");

  const Numbers dy = normal<T>(rows * hidden, 95), recurrent = normal<float>(batch * hidden, 96);
  const Array<T> device_dy(dy);
  const Array<float> device_recurrent(recurrent);
  const T *const dys = device_dy.data(), *const own_h = got.h.data();
  const float *const of_gates = got.gates.data(), *const of_kept = got.kept.data();
  const auto back = in_both_orders([&] {
    Backward<T> r{Array<T>(rows * 3 * hidden), Array<T>(rows * 3 * hidden),
                  Array<float>(batch * hidden)};
    for (const std::int64_t t : {1, 0}) {
      gru_step_backward<T>(
          s, t == 1 ? StepPlace::last : StepPlace::before_another, step(of_gates, t, 3 * hidden),
          step(of_kept, t, hidden), t == 0 ? StepRows<const T>{} : step(own_h, 0, hidden),
          step(dys, t, hidden), t == 1 ? nullptr : device_recurrent.data(), r.beside.data(),
          step(r.dinput.data(), t, 3 * hidden), step(r.dstate.data(), t, 3 * hidden), nullptr);
    }
    return r;
  });
  const Numbers exact_gates = got.gates.numbers(), exact_kept = got.kept.numbers(),
                exact_h = got.h.numbers();
  Numbers dinput(exact_gates.size()), dstate(dinput.size()), beside(at(batch * hidden));
  for (const std::int64_t t : {1, 0})
    for (std::int64_t n = 0; n < batch; ++n) {
      const std::int64_t r = 2 * n + t;
      Numbers dh(dy.begin() + r * hidden, dy.begin() + (r + 1) * hidden);
      for (std::int64_t k = 0; t == 0 && k < hidden; ++k) {
        dh[at(k)] += recurrent[at(n * hidden + k)] + beside[at(n * hidden + k)];
      }
      reference::gru_cell_gradient(hidden, exact_gates.data() + r * 3 * hidden,
                                   exact_kept.data() + r * hidden,
                                   t == 0 ? nullptr : exact_h.data() + (r - 1) * hidden, dh.data(),
                                   dinput.data() + r * 3 * hidden, dstate.data() + r * 3 * hidden);
      std::copy(dh.begin(), dh.end(), beside.begin() + n * hidden);
    }
  expect_close(back.dinput, dinput, 4e-6, "dinput");
  expect_close(back.dstate, dstate, 4e-6, "dstate");
  expect_close(back.beside, beside, 4e-6, "beside");
}

TYPED_TEST(OwnGru, Steps) {
  for (const std::int64_t hidden : {1, 3, 8, 50})
    for (const bool biased : {false, true}) expect_steps<TypeParam>(3, hidden, biased);
}

}  // namespace gru_test
}  // namespace hetpipe::cuda
