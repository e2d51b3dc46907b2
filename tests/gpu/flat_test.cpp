// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "kernels/buffer.h"
#include "kernels/host_device.h"
#include "tests/gpu/cuda_test.h"
#include "tests/unit/kernels/layer_run.h"

// Flat arrays and optimizers: the bits of the reference device.
namespace hetpipe {
namespace gpu_flat_test {

using Floats = std::vector<float>;

// Arrays of one device, `offset` elements behind the start of a block.
class Arrays {
 public:
  Arrays(Device& device, std::int64_t offset)
      : device_(device), stream_(device.make_stream()), offset_(offset) {}

  float* add(const Floats& values) {
    Buffer& buffer =
        buffers_.emplace_back(device_, *stream_, (values.size() + at(offset_)) * sizeof(float) + 1,
                              MemoryKind::activations);
    float* const place = buffer.as<float>() + offset_;
    device_.copy(*stream_, activations(place), activations(values.data()),
                 values.size() * sizeof(float));
    return place;
  }
  template <class T>
  std::vector<T> read(const T* place, std::int64_t count) {
    std::vector<T> values(at(count));
    device_.copy(*stream_, reinterpret_cast<std::byte*>(values.data()),
                 reinterpret_cast<const std::byte*>(place), values.size() * sizeof(T));
    stream_->synchronize();
    return values;
  }
  Device& device() { return device_; }
  Stream& stream() { return *stream_; }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::int64_t offset_;
  std::vector<Buffer> buffers_;
};

class CudaArrays : public testing::Test {
 protected:
  std::unique_ptr<Device> device_ = test::cuda_device(Precision::fp32);
  std::unique_ptr<Device> reference_ = make_device("reference", 1);

  // compute(arrays, count) -> what it wrote; of both devices the same bits.
  template <class Compute>
  void expect_same(const Compute& compute) {
    for (const std::int64_t count : {0, 1, 3, 4, 5, 255, 4096, 4097, 70001})
      for (const std::int64_t offset : {0, 1}) {
        SCOPED_TRACE(std::to_string(count) + " at " + std::to_string(offset));
        Arrays here(*reference_, offset), there(*device_, offset);
        const auto wanted = compute(here, count), got = compute(there, count);
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_EQ(std::memcmp(&got[i], &wanted[i], sizeof got[i]), 0)
              << i << ": " << got[i] << " for " << wanted[i];
        }
      }
  }
};

Floats drawn(std::uint64_t key, std::int64_t count) { return test::normal_values(key, count); }
Floats positive(std::uint64_t key, std::int64_t count) {
  Floats values = drawn(key, count);
  for (float& x : values) x = std::abs(x);
  return values;
}
Floats joined(Floats a, const Floats& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST_F(CudaArrays, Arithmetic) {
  expect_same([](Arrays& a, std::int64_t n) {
    float* const x = a.add(drawn(1, n));
    a.device().fill(a.stream(), x, 1.1f, n);
    return a.read(x, n);
  });
  expect_same([](Arrays& a, std::int64_t n) {
    float *const y = a.add(drawn(1, n)), *const x = a.add(drawn(2, n));
    a.device().add(a.stream(), y, x, n);
    a.device().scale(a.stream(), y, 0.3f, n);
    return a.read(y, n);
  });
  expect_same([](Arrays& a, std::int64_t n) {
    float *const x = a.add(drawn(1, n)), *const y = a.add(drawn(2, n)),
                 *const z = a.add(y == x ? Floats{} : drawn(3, n));
    a.device().sum(a.stream(), z, x, y, n);
    a.device().sum(a.stream(), x, x, y, n);  // in place
    return joined(a.read(z, n), a.read(x, n));
  });
  expect_same([](Arrays& a, std::int64_t n) {
    float *const w = a.add(drawn(1, n)), *const x = a.add(drawn(2, n)),
                 *const z = a.add(drawn(3, n));
    a.device().look_ahead(a.stream(), z, w, x, 1.7f, n);
    return a.read(z, n);
  });
}

TEST_F(CudaArrays, Norms) {
  expect_same([](Arrays& a, std::int64_t n) {
    float *const x = a.add(drawn(1, n)), *const y = a.add(drawn(2, n)), *const s = a.add(Floats(6));
    // Two sums, of doubles.
    auto* const sums = reinterpret_cast<double*>((reinterpret_cast<std::uintptr_t>(s) + 7) / 8 * 8);
    a.device().sum_of_squares(a.stream(), sums, x, n);
    a.device().sum_of_squares(a.stream(), sums + 1, y, n);
    a.device().limit_norm(a.stream(), y, sums, 2, 0.7, n);
    a.device().scale_by_trust(a.stream(), x, sums, 0.3f, n);
    const std::vector<double> squares = a.read(sums, 2);
    Floats result = joined(a.read(y, n), a.read(x, n));
    for (const double square : squares) {
      const auto bits = std::bit_cast<std::array<float, 2>>(square);
      result.insert(result.end(), bits.begin(), bits.end());
    }
    return result;
  });
}

TEST_F(CudaArrays, Sgd) {
  for (const bool over_gradient : {false, true})
    for (const SgdOptions& options :
         {SgdOptions{.rate = 0.1f, .momentum = 0, .weight_decay = 0}, SgdOptions{0.03f, 0.9f, 0},
          SgdOptions{0.03f, 0.9f, 1e-3f}, SgdOptions{0.03f, 0.9f, 1e-3f, true}}) {
      expect_same([&](Arrays& a, std::int64_t n) {
        float *const g = a.add(drawn(1, n)), *const w = a.add(drawn(2, n));
        float* const v = options.momentum == 0 ? nullptr : a.add(drawn(3, n));
        float* const delta = over_gradient ? g : a.add(drawn(4, n));
        a.device().sgd(a.stream(), delta, v, g, w, options, n);
        return v == nullptr ? a.read(delta, n) : joined(a.read(delta, n), a.read(v, n));
      });
    }
}

TEST_F(CudaArrays, Adam) {
  for (const bool over_gradient : {false, true})
    for (const std::int64_t step : {1, 7})
      for (const bool decoupled : {false, true}) {
        const float nu = step == 7 ? 0.8f : 1.0f;
        const AdamOptions options{.weight_decay = 1e-2f, .decoupled = decoupled, .nu = nu};
        expect_same([&](Arrays& a, std::int64_t n) {
          float *const g = a.add(drawn(1, n)), *const w = a.add(drawn(2, n));
          float *const m = a.add(drawn(3, n)), *const v = a.add(positive(4, n));
          float* const delta = over_gradient ? g : a.add(drawn(5, n));
          float* const ahead = a.add(drawn(6, n));
          a.device().adam(a.stream(), delta, m, v, g, w, options, step, n);
          a.device().look_ahead_adam(a.stream(), ahead, w, m, v, options, step, 0.02f, n);
          return joined(joined(a.read(delta, n), a.read(ahead, n)),
                        joined(a.read(m, n), a.read(v, n)));
        });
      }
}

TEST_F(CudaArrays, Rmsprop) {
  for (const bool over_gradient : {false, true}) {
    expect_same([&](Arrays& a, std::int64_t n) {
      float *const g = a.add(drawn(1, n)), *const w = a.add(drawn(2, n));
      float* const v = a.add(positive(4, n));
      float* const delta = over_gradient ? g : a.add(drawn(5, n));
      a.device().rmsprop(a.stream(), delta, v, g, w, {.weight_decay = 1e-2f}, n);
      return joined(a.read(delta, n), a.read(v, n));
    });
  }
}

TEST_F(CudaArrays, Damp) {
  for (const bool inputs_first : {false, true})
    for (const std::int64_t columns : {1, 37, 512}) {
      expect_same([&](Arrays& a, std::int64_t n) {
        float* const d = a.add(drawn(1, n));
        if (n >= columns)
          a.device().damp(a.stream(), d, {n / columns, columns, inputs_first}, {0.8f, 3, 12});
        return a.read(d, n);
      });
    }
}

// Activations of every element type.
class CudaElements : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    device_ = test::cuda_device(GetParam());
    if (device_ == nullptr) GTEST_SKIP() << test::last_gpu().name << " has no such precision";
  }
  std::unique_ptr<Device> device_;
};

TEST_P(CudaElements, AreConvertedAsOnTheHost) {
  const float infinity = std::numeric_limits<float>::infinity();
  Floats values = drawn(9, 3001);
  for (const float special : {0.0f, -0.0f, infinity, -infinity, 65504.0f, 65520.0f, 1e-8f, 3e38f,
                              1.00390625f, 1.01171875f}) {
    values.push_back(special);
  }
  const auto stream = device_->make_stream();
  const auto count = static_cast<std::int64_t>(values.size());
  for (const ElementType from : {ElementType::fp32, ElementType::bf16, ElementType::fp16})
    for (const ElementType to : {ElementType::fp32, ElementType::bf16, ElementType::fp16}) {
      std::vector<std::byte> given(values.size() * bytes_of(from)),
          wanted(values.size() * bytes_of(to)), got(wanted.size());
      convert_elements(given.data(), from, activations(values.data()), ElementType::fp32, count);
      convert_elements(wanted.data(), to, given.data(), from, count);
      const Buffer a(*device_, *stream, given.size(), MemoryKind::messages);
      const Buffer b(*device_, *stream, wanted.size(), MemoryKind::messages);
      device_->copy(*stream, a.data(), given.data(), given.size());
      device_->convert(*stream, b.data(), to, a.data(), from, count);
      device_->convert(*stream, b.data(), to, a.data(), from, 0);
      device_->copy(*stream, got.data(), b.data(), got.size());
      stream->synchronize();
      EXPECT_EQ(got, wanted) << to_string(from) << " to " << to_string(to);
    }
}

TEST_P(CudaElements, AreUnpackedFromSamplesAsOnTheHost) {
  const auto stream = device_->make_stream();
  for (const SampleType from : {SampleType::pixels, SampleType::tokens, SampleType::floats})
    for (const ElementType to : {ElementType::fp32, ElementType::bf16, ElementType::fp16}) {
      const std::int64_t count = 70'002;
      std::vector<std::byte> given(static_cast<std::size_t>(count) * bytes_of(from));
      if (from == SampleType::floats) {
        const Floats values = drawn(9, count);
        std::ranges::copy(std::as_bytes(std::span(values)), given.begin());
      } else {
        for (std::size_t i = 0; i < given.size(); ++i) {
          const std::size_t value = i / bytes_of(from);
          given[i] = static_cast<std::byte>(i % bytes_of(from) == 0 ? value : value >> 8);
        }
      }
      std::vector<std::byte> wanted(static_cast<std::size_t>(count) * bytes_of(to)),
          got(wanted.size());
      const PixelScale scale =
          to == ElementType::fp16 ? PixelScale{} : PixelScale{3, {.5f, .4f, .3f}, {.2f, .3f, .4f}};
      unpack_elements(wanted.data(), to, given.data(), from, count, scale);
      const Buffer a(*device_, *stream, given.size(), MemoryKind::activations);
      const Buffer b(*device_, *stream, wanted.size(), MemoryKind::activations);
      device_->copy(*stream, a.data(), given.data(), given.size());
      device_->unpack(*stream, b.data(), to, a.data(), from, count, scale);
      device_->unpack(*stream, b.data(), to, a.data(), from, 0, scale);
      device_->copy(*stream, got.data(), b.data(), got.size());
      stream->synchronize();
      EXPECT_EQ(got, wanted) << to_string(from) << " to " << to_string(to);
    }
}

TEST_P(CudaElements, AreAccumulated) {
  const ElementType type = device_->element_type();
  const Floats x = drawn(1, 1003), y = drawn(2, 1003);
  const auto count = static_cast<std::int64_t>(x.size());
  const auto narrow = [&](const Floats& values) {
    std::vector<std::byte> there(values.size() * bytes_of(type));
    convert_elements(there.data(), type, activations(values.data()), ElementType::fp32, count);
    return there;
  };
  const auto wide = [&](const std::vector<std::byte>& there) {
    Floats values(x.size());
    convert_elements(activations(values.data()), ElementType::fp32, there.data(), type, count);
    return values;
  };
  const std::vector<std::byte> xs = narrow(x);
  std::vector<std::byte> ys = narrow(y);
  Floats sums = wide(ys);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += wide(xs)[i];
  const auto stream = device_->make_stream();
  const Buffer a(*device_, *stream, xs.size(), MemoryKind::activations);
  const Buffer b(*device_, *stream, ys.size(), MemoryKind::activations);
  device_->copy(*stream, a.data(), xs.data(), xs.size());
  device_->copy(*stream, b.data(), ys.data(), ys.size());
  device_->accumulate(*stream, b.data(), a.data(), count);
  device_->accumulate(*stream, b.data(), a.data(), 0);
  device_->copy(*stream, ys.data(), b.data(), ys.size());
  stream->synchronize();
  EXPECT_EQ(ys, narrow(sums));
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaElements,
                         testing::Values(Precision::fp32, Precision::bf16, Precision::fp16),
                         [](const auto& of) { return to_string(of.param); });

}  // namespace gpu_flat_test
}  // namespace hetpipe
