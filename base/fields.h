// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

// A struct's fields, described once, right below it:
//
//   struct Seat {
//     int row = 0;
//     std::string colour;
//   };
//   constexpr auto fields_of(Type<Seat>) {
//     return std::tuple(Field{"row", &Seat::row}, Field{"colour", &Seat::colour});
//   }
//
// From it follow operator== here (where the struct has none of its own), and to_json, from_json and
// a text for other ranks in fields_json.h. A description that leaves out a member, or has one
// twice, does not compile where any of them is used: a field cannot be forgotten.
namespace hetpipe {

template <class T>
struct Type {};  // T as an argument

template <class Owner, class Value>
struct Field {
  std::string_view name;
  Value Owner::*member;
};
template <class Owner, class Value>
Field(const char*, Value Owner::*) -> Field<Owner, Value>;

template <class T>
concept Described = requires {
  fields_of(Type<T>{});
};

namespace fields_detail {

// Initialises a member of any type.
struct Anything {
  template <class T>
  operator T() const;
};

template <class T, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Anything{})...}; };
}

template <class OwnerA, class A, class OwnerB, class B>
constexpr bool clash(const Field<OwnerA, A>& a, const Field<OwnerB, B>& b) {
  if constexpr (std::is_same_v<Field<OwnerA, A>, Field<OwnerB, B>>) {
    if (a.member == b.member) return true;
  }
  return a.name == b.name;
}

template <class T>
consteval std::size_t count_of() {
  return std::tuple_size_v<decltype(fields_of(Type<T>{}))>;
}

}  // namespace fields_detail

// Calls `visit` with each Field, in their order.
template <Described T, class Visit>
constexpr void for_each_field(const Visit& visit) {
  const auto fields = fields_of(Type<T>{});
  [&]<std::size_t... I>(std::index_sequence<I...>) { (visit(std::get<I>(fields)), ...); }
  (std::make_index_sequence<fields_detail::count_of<T>()>());
}

// Whether a description has every member of its struct, each once and under a name of its own. As
// many members as an aggregate takes initialisers: so it has neither bases nor plain arrays.
template <Described T>
consteval bool describes_all() {
  constexpr std::size_t count = fields_detail::count_of<T>();
  std::size_t clashes = 0;  // of each field with itself
  for_each_field<T>([&](const auto& one) {
    for_each_field<T>([&](const auto& other) { clashes += fields_detail::clash(one, other); });
  });
  return std::is_aggregate_v<T> && clashes == count &&
         fields_detail::takes<T>(std::make_index_sequence<count>()) &&
         !fields_detail::takes<T>(std::make_index_sequence<count + 1>());
}

template <Described T>
constexpr bool operator==(const T& a, const T& b) {
  static_assert(describes_all<T>(), "fields_of leaves out a member, or has one twice");
  bool equal = true;
  for_each_field<T>(
      [&](const auto& field) { equal = equal && a.*field.member == b.*field.member; });
  return equal;
}

}  // namespace hetpipe
