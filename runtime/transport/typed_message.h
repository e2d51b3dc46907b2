// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "runtime/transport/transport.h"

// Messages as types: a plain struct whose fields have names, and a kind that no other message has.
//
//   struct GateGrant {
//     static constexpr auto kKind = SyncKind::gate_grant;
//     Wave wave = 0;
//     Label label = 0;
//   };
//
// What one end wrote as such a struct the other one reads as the same: reading it as another kind
// ends the program. They travel as bytes between ranks of one build, in one of two ways:
//   * a control message is the struct, whole (body_of). Where a field is a string or a vector the
//     struct lists its fields, in `static auto fields(auto& m) { return std::tie(m.a, m.b); }`;
//   * on other channels the struct stands before a payload that lies elsewhere, and says which one
//     it is (header_of).
//
// Each folder numbers the kinds of its own messages in an enum that begins where the one of the
// folder below ends (first_after) and closes with `end`.
namespace hetpipe {

template <class M>
inline constexpr auto kind_of = static_cast<std::int32_t>(M::kKind);

template <class Below>
inline constexpr auto first_after = static_cast<std::int32_t>(Below::end);

// Whether no two of these messages have the same kind.
template <class... M>
consteval bool kinds_differ() {
  const std::int32_t kinds[] = {kind_of<M>...};
  for (std::size_t i = 0; i < sizeof...(M); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (kinds[i] == kinds[j]) return false;
    }
  }
  return true;
}

template <class M>
MessageHeader header_of(const M& message) {
  static_assert(std::is_trivially_copyable_v<M> && sizeof(M) <= MessageHeader::kFieldBytes);
  MessageHeader header{.kind = kind_of<M>};
  std::memcpy(header.fields.data(), &message, sizeof message);
  return header;
}

template <class M>
M read_as(const MessageHeader& header) {
  ensure(header.kind == kind_of<M>, "a message of another kind arrived");
  M message;
  std::memcpy(&message, header.fields.data(), sizeof message);
  return message;
}

// Fields one after another; a string or vector behind its size.
class BodyWriter {
 public:
  template <class T>
  void add(const T& field) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      append(std::as_bytes(std::span(&field, 1)));
    } else {
      add(field.size());
      append(std::as_bytes(std::span(field)));
    }
  }
  std::vector<std::byte> take() { return std::move(body_); }

 private:
  void append(std::span<const std::byte> bytes) {
    body_.insert(body_.end(), bytes.begin(), bytes.end());
  }
  std::vector<std::byte> body_;
};

class BodyReader {
 public:
  explicit BodyReader(std::span<const std::byte> body) : left_(body) {}
  template <class T>
  void read(T& field) {
    if constexpr (std::is_trivially_copyable_v<T>) {
      copy(std::as_writable_bytes(std::span(&field, 1)));
    } else {
      std::size_t size = 0;
      read(size);
      ensure(size <= left_.size(), "a message is shorter than it says");
      field.resize(size);
      copy(std::as_writable_bytes(std::span(field)));
    }
  }
  bool done() const { return left_.empty(); }

 private:
  void copy(std::span<std::byte> to) {
    ensure(to.size() <= left_.size(), "a message is shorter than its kind");
    if (!to.empty()) std::memcpy(to.data(), left_.data(), to.size());
    left_ = left_.subspan(to.size());
  }
  std::span<const std::byte> left_;
};

template <class M>
std::vector<std::byte> body_of(const M& message) {
  BodyWriter body;
  if constexpr (requires { M::fields(message); }) {
    std::apply([&body](const auto&... field) { (body.add(field), ...); }, M::fields(message));
  } else {
    body.add(message);
  }
  return body.take();
}

template <class M>
bool is_a(const ControlMessage& message) {
  return message.header.kind == kind_of<M>;
}

template <class M>
M read_as(const ControlMessage& message) {
  ensure(is_a<M>(message), "a message of another kind arrived");
  M read_here;
  BodyReader body(message.payload);
  if constexpr (requires { M::fields(read_here); }) {
    std::apply([&body](auto&... field) { (body.read(field), ...); }, M::fields(read_here));
  } else {
    body.read(read_here);
  }
  ensure(body.done(), "a message is longer than its kind");
  return read_here;
}

template <class M>
void send_control(Transport& transport, Rank to, const M& message) {
  transport.send_control(to, {.kind = kind_of<M>}, body_of(message));
}

}  // namespace hetpipe
