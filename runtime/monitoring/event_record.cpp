// SPDX-License-Identifier: Apache-2.0
#include "runtime/monitoring/event_record.h"

#include <bit>
#include <string_view>

#include "runtime/monitoring/crc32c.h"

namespace hetpipe {
namespace {

template <class Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes += static_cast<char>((value >> (8 * i)) & 255);
  }
  return bytes;
}

std::string masked_checksum(std::string_view bytes) {
  constexpr std::uint32_t kMask = 0xa282ead8;
  return little_endian(std::rotr(crc32c(bytes), 15) + kMask);
}

std::string record(const std::string& data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + masked_checksum(length) + data + masked_checksum(data);
}

// Fields of a protobuf message: a key, which is the field's number and how its value is written.
enum class Wire { varint = 0, eight_bytes = 1, sized = 2, four_bytes = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
  return bytes + static_cast<char>(value);
}
std::string key(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}
std::string number_field(int field, std::int64_t value) {
  return key(field, Wire::varint) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(int field, double value) {
  return key(field, Wire::eight_bytes) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(int field, double value) {
  return key(field, Wire::four_bytes) +
         little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
}
std::string sized_field(int field, const std::string& bytes) {
  return key(field, Wire::sized) + varint(bytes.size()) + bytes;
}

std::string event(double time, std::int64_t step, const std::string& what) {
  return record(double_field(1, time) + number_field(2, step) + what);
}

}  // namespace

std::string version_record(double time) {
  return record(double_field(1, time) + sized_field(3, "brain.Event:2"));
}

std::string start_record(double time, std::int64_t step) {
  return event(time, step, sized_field(7, number_field(1, 1)));
}

std::string scalars_record(double time, std::int64_t step, const std::vector<Scalar>& scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    summary += sized_field(1, sized_field(1, scalar.tag) + float_field(2, scalar.value));
  }
  return event(time, step, sized_field(5, summary));
}

}  // namespace hetpipe
