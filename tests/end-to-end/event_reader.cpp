// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/event_reader.h"

#include <cstring>
#include <stdexcept>
#include <string_view>

namespace hetpipe::test {
namespace {

using Bytes = std::string_view;

void need(bool condition) {
  if (!condition) throw std::runtime_error("not as the format is defined");
}

Bytes take(Bytes& bytes, std::uint64_t count) {
  need(count <= bytes.size());
  const Bytes taken = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return taken;
}

template <class Value>
Value little_endian(Bytes bytes) {
  need(bytes.size() == sizeof(Value));
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    number = number << 8 | static_cast<std::uint8_t>(bytes[i]);
  }
  Value value{};
  std::memcpy(&value, &number, sizeof value);  // on a machine that is little endian itself
  return value;
}

// Bit by bit: the division of the bytes, lowest bit first, by the Castagnoli polynomial.
std::uint32_t checksum(Bytes bytes) {
  std::uint32_t rest = ~std::uint32_t{0};
  for (const char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool odd =
          ((rest ^ static_cast<std::uint32_t>(static_cast<std::uint8_t>(byte) >> bit)) & 1) != 0;
      rest >>= 1;
      if (odd) rest ^= 0x82f63b78;
    }
  }
  rest = ~rest;
  return ((rest >> 15) | (rest << 17)) + 0xa282ead8;
}

std::uint64_t varint(Bytes& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<std::uint8_t>(take(bytes, 1)[0]);
    value |= static_cast<std::uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  throw std::runtime_error("a number without an end");
}

// One field of a message: its number, and its value as bytes or as a number.
struct Field {
  std::uint64_t number = 0;
  std::uint64_t value = 0;
  Bytes bytes{};
};
Field next(Bytes& message) {
  const std::uint64_t key = varint(message);
  Field field{.number = key >> 3};
  switch (key & 7) {
    case 0:
      field.value = varint(message);
      break;
    case 1:
      field.bytes = take(message, 8);
      break;
    case 2:
      field.bytes = take(message, varint(message));
      break;
    case 5:
      field.bytes = take(message, 4);
      break;
    default:
      need(false);
  }
  return field;
}

void read_value(Bytes message, ReadEvent& event) {
  std::string tag;
  std::optional<float> value;
  while (!message.empty()) {
    const Field field = next(message);
    need(field.number == 1 || field.number == 2);
    if (field.number == 1) tag = field.bytes;
    if (field.number == 2) value = little_endian<float>(field.bytes);
  }
  need(!tag.empty() && value && event.values.emplace(tag, *value).second);
}

ReadEvent read_event(Bytes message) {
  ReadEvent event;
  while (!message.empty()) {
    Field field = next(message);
    switch (field.number) {
      case 1:
        event.wall_time = little_endian<double>(field.bytes);
        break;
      case 2:
        event.step = static_cast<std::int64_t>(field.value);
        break;
      case 3:
        event.file_version = field.bytes;
        break;
      case 5:
        while (!field.bytes.empty()) {
          const Field value = next(field.bytes);
          need(value.number == 1);
          read_value(value.bytes, event);
        }
        break;
      case 7: {
        const Field status = next(field.bytes);
        event.starts = status.number == 1 && status.value == 1;
        break;
      }
      default:
        need(false);
    }
  }
  return event;
}

}  // namespace

std::optional<std::vector<ReadEvent>> read_events(const std::string& file) try {
  std::vector<ReadEvent> events;
  for (Bytes bytes = file; !bytes.empty();) {
    const Bytes length = take(bytes, 8);
    need(little_endian<std::uint32_t>(take(bytes, 4)) == checksum(length));
    const Bytes data = take(bytes, little_endian<std::uint64_t>(length));
    need(little_endian<std::uint32_t>(take(bytes, 4)) == checksum(data));
    events.push_back(read_event(data));
  }
  return events;
} catch (const std::runtime_error&) {
  return std::nullopt;
}

}  // namespace hetpipe::test
