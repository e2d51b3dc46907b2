// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/buffer.h"
#include "kernels/devices.h"

namespace hetpipe {
namespace kernels_unpack_test {

template <class To>
std::vector<std::byte> rounded(const std::vector<float>& values) {
  std::vector<std::byte> bytes;
  for (const float value : values) {
    const To narrow(value);
    const auto* from = reinterpret_cast<const std::byte*>(&narrow);
    bytes.insert(bytes.end(), from, from + sizeof(To));
  }
  return bytes;
}

// `given`, which layers are to read as `wanted`.
void expect_unpacked(SampleType from, const std::vector<std::byte>& given,
                     const std::vector<float>& wanted, const PixelScale& scale = {}) {
  const auto count = static_cast<std::int64_t>(wanted.size());
  for (const char* name : {"reference", "cpu", "offload"}) {
    SCOPED_TRACE(name);
    const std::unique_ptr<Device> device = make_device(name, 1);
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Buffer there(*device, *stream, given.size(), MemoryKind::activations);
    device->copy(*stream, there.data(), given.data(), given.size());
    const auto as = [&](ElementType to) {
      std::vector<std::byte> got(wanted.size() * bytes_of(to));
      const Buffer unpacked(*device, *stream, got.size(), MemoryKind::activations);
      device->unpack(*stream, unpacked.data(), to, there.data(), from, count, scale);
      device->copy(*stream, got.data(), unpacked.data(), got.size());
      stream->synchronize();
      return got;
    };
    EXPECT_EQ(as(ElementType::fp32), rounded<float>(wanted));
    EXPECT_EQ(as(ElementType::bf16), rounded<Bf16>(wanted));
    EXPECT_EQ(as(ElementType::fp16), rounded<Fp16>(wanted));
  }
}

TEST(Unpack, PixelsAreSharesOf255) {
  std::vector<std::byte> pixels;
  std::vector<float> wanted;
  for (int value = 0; value < 256; ++value) {
    pixels.push_back(static_cast<std::byte>(value));
    wanted.push_back(static_cast<float>(value) / 255.0f);
  }
  expect_unpacked(SampleType::pixels, pixels, wanted);
}

TEST(Unpack, PixelsLessAMean) {
  const PixelScale scale{3, {.485f, .456f, .406f}, {.229f, .224f, .225f}};
  std::vector<std::byte> pixels;
  std::vector<float> wanted;
  for (std::size_t i = 0; i < 768; ++i) {
    pixels.push_back(static_cast<std::byte>(i / 3));
    const float share = static_cast<float>(i / 3) / 255.0f;
    wanted.push_back((share - scale.mean[i % 3]) / scale.deviation[i % 3]);
  }
  expect_unpacked(SampleType::pixels, pixels, wanted, scale);
}

TEST(Unpack, TokensAreTheirNumbers) {
  std::vector<std::byte> tokens(2 * 1000);
  std::vector<float> wanted;
  for (std::size_t i = 0; i < 1000; ++i) {
    const auto token = static_cast<std::uint16_t>(65535 - 65 * i);
    std::memcpy(&tokens[2 * i], &token, 2);
    wanted.push_back(static_cast<float>(token));
  }
  expect_unpacked(SampleType::tokens, tokens, wanted);
}

TEST(Unpack, FloatsStay) {
  const std::vector<float> values{0.0f, -0.0f, 1.00390625f, -3e38f, 65520.0f, 1e-8f, 0.3f};
  expect_unpacked(SampleType::floats, rounded<float>(values), values);
}

}  // namespace kernels_unpack_test
}  // namespace hetpipe
