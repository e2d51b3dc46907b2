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

struct Pixel {
  std::uint8_t value;
  explicit operator float() const { return static_cast<float>(value) / 255.0f; }
};
static_assert(sizeof(Pixel) == 1);

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
                     SampleType from_type, std::int64_t count) {
  switch (from_type) {
    case SampleType::pixels:
      return convert_from<Pixel>(to, to_type, from, count);
    case SampleType::tokens:
      return convert_from<std::uint16_t>(to, to_type, from, count);
    case SampleType::floats:
      return convert_from<float>(to, to_type, from, count);
  }
}

std::unique_ptr<Stream> make_inline_stream() { return std::make_unique<InlineStream>(); }

}  // namespace hetpipe
