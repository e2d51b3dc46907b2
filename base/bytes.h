// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"

// Values as bytes, for messages between ranks of one build: what is read is what was written, in
// the same order.
namespace hetpipe {

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class ByteWriter {
 public:
  void number(std::int64_t value) { append(&value, sizeof value); }
  void list(std::span<const float> values) {
    number(static_cast<std::int64_t>(values.size()));
    append(values.data(), values.size() * sizeof(float));
  }
  void lists(const std::vector<std::vector<float>>& all) {
    number(static_cast<std::int64_t>(all.size()));
    for (const std::vector<float>& values : all) list(values);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void append(const void* from, std::size_t count) {
    const auto* start = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), start, start + count);
  }
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}
  std::int64_t number() {
    std::int64_t value = 0;
    copy(&value, sizeof value);
    return value;
  }
  std::vector<float> list() {
    const auto count = static_cast<std::size_t>(number());
    ensure(count <= left_.size() / sizeof(float), "a message is shorter than it states");
    std::vector<float> values(count);
    copy(values.data(), count * sizeof(float));
    return values;
  }
  std::vector<std::vector<float>> lists() {
    std::vector<std::vector<float>> all;
    for (std::int64_t left = number(); left > 0; --left) all.push_back(list());
    return all;
  }
  bool done() const { return left_.empty(); }

 private:
  void copy(void* to, std::size_t count) {
    ensure(count <= left_.size(), "a message is shorter than it states");
    if (count > 0) std::memcpy(to, left_.data(), count);
    left_ = left_.subspan(count);
  }
  std::span<const std::byte> left_;
};

}  // namespace hetpipe
