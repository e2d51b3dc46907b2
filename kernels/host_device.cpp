// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_device.h"

#include "base/time.h"

namespace hetpipe {
namespace {

class InlineEvent final : public Event {
 public:
  bool done() const override { return true; }
  std::int64_t done_ns() const override { return recorded_ns_; }

 private:
  std::int64_t recorded_ns_ = now_ns();
};

// Work is done when the call that enqueues it returns.
class InlineStream final : public Stream {
 public:
  std::unique_ptr<Event> record() override { return std::make_unique<InlineEvent>(); }
  void wait(const Event&) override {}
  void synchronize() override {}
};

template <class To, class From>
void convert_as(std::byte* to, const std::byte* from, std::int64_t count) {
  To* const into = reinterpret_cast<To*>(to);
  const From* const values = reinterpret_cast<const From*>(from);
  for (std::int64_t i = 0; i < count; ++i) into[i] = To(static_cast<float>(values[i]));
}

template <class From>
void convert_from(std::byte* to, ElementType to_type, const std::byte* from, std::int64_t count) {
  switch (to_type) {
    case ElementType::fp32:
      return convert_as<float, From>(to, from, count);
    case ElementType::bf16:
      return convert_as<Bf16, From>(to, from, count);
    case ElementType::fp16:
      return convert_as<Fp16, From>(to, from, count);
  }
}

template <class To>
void scale_pixels(std::byte* to, const std::byte* from, std::int64_t count,
                  const PixelScale& scale) {
  To* const into = reinterpret_cast<To*>(to);
  const auto* const pixels = reinterpret_cast<const std::uint8_t*>(from);
  if (scale.channels == 0) {
    for (std::int64_t i = 0; i < count; ++i) into[i] = To(scaled({}, pixels[i], 0));
    return;
  }
  // A byte has few values.
  std::array<std::array<float, 256>, 4> values{};
  for (int c = 0; c < scale.channels; ++c) {
    for (int pixel = 0; pixel < 256; ++pixel) {
      values[static_cast<std::size_t>(c)][static_cast<std::size_t>(pixel)] =
          scaled(scale, static_cast<std::uint8_t>(pixel), c);
    }
  }
  for (std::int64_t i = 0; i < count; i += scale.channels) {
    for (int c = 0; c < scale.channels; ++c) {
      into[i + c] = To(values[static_cast<std::size_t>(c)][pixels[i + c]]);
    }
  }
}

}  // namespace

void convert_elements(std::byte* to, ElementType to_type, const std::byte* from,
                      ElementType from_type, std::int64_t count) {
  switch (from_type) {
    case ElementType::fp32:
      return convert_from<float>(to, to_type, from, count);
    case ElementType::bf16:
      return convert_from<Bf16>(to, to_type, from, count);
    case ElementType::fp16:
      return convert_from<Fp16>(to, to_type, from, count);
  }
}

void unpack_elements(std::byte* to, ElementType to_type, const std::byte* from,
                     SampleType from_type, std::int64_t count, const PixelScale& scale) {
  switch (from_type) {
    case SampleType::pixels:
      switch (to_type) {
        case ElementType::fp32:
          return scale_pixels<float>(to, from, count, scale);
        case ElementType::bf16:
          return scale_pixels<Bf16>(to, from, count, scale);
        case ElementType::fp16:
          return scale_pixels<Fp16>(to, from, count, scale);
      }
      return;
    case SampleType::tokens:
      return convert_from<std::uint16_t>(to, to_type, from, count);
    case SampleType::floats:
      return convert_from<float>(to, to_type, from, count);
  }
}

std::unique_ptr<Stream> make_inline_stream() { return std::make_unique<InlineStream>(); }

}  // namespace hetpipe
