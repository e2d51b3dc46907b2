// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/damping.h"
#include "kernels/cuda/own/flat.h"
#include "kernels/cuda/own/optimizer.h"
#include "kernels/devices.h"
#include "tests/unit/kernels/cuda/own_test.h"

namespace hetpipe::cuda {
namespace optimizer_kernels_test {

using namespace test;

// Bit for bit what the reference device does, over several steps.
class OptimizerKernels : public testing::Test {
 protected:
  std::unique_ptr<Device> reference_ = make_device("reference", 1);
  std::unique_ptr<Stream> stream_ = reference_->make_stream();

  // f(count, offset of some arrays)
  template <class F>
  static void sweep(const F& f) {
    in_both_orders([&] {
      for (const std::int64_t count : {0, 1, 3, 4, 5, 1023, 1024, 4099}) {
        for (const std::int64_t offset : {0, 1}) {
          SCOPED_TRACE(testing::Message() << count << " elements, offset " << offset);
          f(count, offset);
        }
      }
    });
  }
};

TEST_F(OptimizerKernels, Sgd) {
  sweep([&](std::int64_t count, std::int64_t offset) {
    Array<float> weights(normal_values(1, count), offset), gradient(normal_values(2, count));
    Array<float> velocity(normal_values(3, count), offset), delta(count);
    Array<float> wanted_velocity(normal_values(3, count)), wanted(count);
    for (const SgdOptions& o : {SgdOptions{0.05f, 0.9f, 1e-2f}, SgdOptions{0.3f, 0, 0},
                                SgdOptions{0.05f, 0.9f, 1e-2f, true}}) {
      sgd(delta.data(), velocity.data(), gradient.data(), weights.data(), o, count, nullptr);
      reference_->sgd(*stream_, wanted.data(), wanted_velocity.data(), gradient.data(),
                      weights.data(), o, count);
      ASSERT_TRUE(same(delta.values(), wanted.values()));
      ASSERT_TRUE(same(velocity.values(), wanted_velocity.values()));
    }
    const SgdOptions plain{0.05f, 0, 1e-2f};
    sgd(delta.data(), nullptr, gradient.data(), weights.data(), plain, count, nullptr);
    reference_->sgd(*stream_, wanted.data(), nullptr, gradient.data(), weights.data(), plain,
                    count);
    ASSERT_TRUE(same(delta.values(), wanted.values()));
  });
}

TEST_F(OptimizerKernels, Adam) {
  AdamOptions o{0.01f, 0.9f, 0.999f, 1e-8f, 1e-2f};
  const auto steps = [&](std::int64_t count, std::int64_t offset) {
    const std::vector<float> zero(static_cast<std::size_t>(count));
    Array<float> weights(normal_values(4, count)), delta(count, offset), wanted(count);
    Array<float> first(zero, offset), second(zero), wanted_first(zero), wanted_second(zero);
    Array<float> ahead(count), wanted_ahead(count);
    for (std::int64_t step = 1; step <= 4; ++step) {
      Array<float> gradient(normal_values(10 + static_cast<std::uint64_t>(step), count), offset);
      adam(delta.data(), first.data(), second.data(), gradient.data(), weights.data(), o, step,
           count, nullptr);
      reference_->adam(*stream_, wanted.data(), wanted_first.data(), wanted_second.data(),
                       gradient.data(), weights.data(), o, step, count);
      ASSERT_TRUE(same(delta.values(), wanted.values()));
      ASSERT_TRUE(same(first.values(), wanted_first.values()));
      ASSERT_TRUE(same(second.values(), wanted_second.values()));
      look_ahead_adam(ahead.data(), weights.data(), first.data(), second.data(), o, step, 0.03f,
                      count, nullptr);
      reference_->look_ahead_adam(*stream_, wanted_ahead.data(), weights.data(), first.data(),
                                  second.data(), o, step, 0.03f, count);
      ASSERT_TRUE(same(ahead.values(), wanted_ahead.values()));
    }
  };
  sweep(steps);
  o.decoupled = true;
  sweep(steps);
  o.nu = 0.7f;
  sweep(steps);
}

TEST_F(OptimizerKernels, Rmsprop) {
  const RmspropOptions o{0.01f, 0.95f, 1e-6f, 1e-2f};
  sweep([&](std::int64_t count, std::int64_t offset) {
    const std::vector<float> zero(static_cast<std::size_t>(count));
    Array<float> weights(normal_values(4, count)), delta(count, offset), wanted(count);
    Array<float> second(zero, offset), wanted_second(zero);
    for (std::uint64_t step = 1; step <= 3; ++step) {
      Array<float> gradient(normal_values(10 + step, count), offset);
      rmsprop(delta.data(), second.data(), gradient.data(), weights.data(), o, count, nullptr);
      reference_->rmsprop(*stream_, wanted.data(), wanted_second.data(), gradient.data(),
                          weights.data(), o, count);
      ASSERT_TRUE(same(delta.values(), wanted.values()));
      ASSERT_TRUE(same(second.values(), wanted_second.values()));
    }
  });
}

TEST_F(OptimizerKernels, ScaleByTrust) {
  sweep([&](std::int64_t count, std::int64_t offset) {
    for (const auto& squares : {std::vector<double>{7, 3}, {0, 3}, {7, 0}}) {
      Array<float> update(normal_values(7, count), offset), wanted(normal_values(7, count));
      Array<float> factor(1);
      scale_by_trust(update.data(), squares.data(), 0.03f, count, factor.data(), nullptr);
      reference_->scale_by_trust(*stream_, wanted.data(), squares.data(), 0.03f, count);
      ASSERT_TRUE(same(update.values(), wanted.values()));
    }
  });
}

TEST_F(OptimizerKernels, Damp) {
  in_both_orders([&] {
    for (const auto& [rows, columns] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 5}, {64, 32}, {65, 33}, {150, 300}}) {
      for (const bool inputs_first : {false, true}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", " << inputs_first);
        const DampedMatrix m{rows, columns, inputs_first};
        Array<float> d(normal_values(8, rows * columns)), wanted(normal_values(8, rows * columns));
        std::vector<double> squares(static_cast<std::size_t>(1 + squares_scratch(m.inputs())));
        std::vector<float> scratch(static_cast<std::size_t>(damp_scratch(m)));
        const DampOptions options{0.8f, 3, 12};
        damp(d.data(), m, options, squares.data(), scratch.data(), nullptr);
        reference_->damp(*stream_, wanted.data(), m, options);
        ASSERT_TRUE(same(d.values(), wanted.values()));
      }
    }
  });
}

TEST_F(OptimizerKernels, LookAhead) {
  sweep([&](std::int64_t count, std::int64_t offset) {
    Array<float> weights(normal_values(5, count), offset), x(normal_values(6, count));
    Array<float> ahead(count, offset), wanted(count);
    look_ahead(ahead.data(), weights.data(), x.data(), 0.07f, count, nullptr);
    reference_->look_ahead(*stream_, wanted.data(), weights.data(), x.data(), 0.07f, count);
    ASSERT_TRUE(same(ahead.values(), wanted.values()));
  });
}

TEST_F(OptimizerKernels, MomentumNeedsAVelocity) {
  float x = 0;
  EXPECT_DEATH(sgd(&x, nullptr, &x, &x, {0.1f, 0.9f, 0}, 1, nullptr), "momentum needs a velocity");
  EXPECT_DEATH(adam(&x, &x, &x, &x, &x, {}, 0, 1, nullptr), "steps count from 1");
}

}  // namespace optimizer_kernels_test
}  // namespace hetpipe::cuda
