// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

// A struct's fields, described once, right below it:
//
//   struct Seat {
//     int row = 0;
//     std::string colour;
//   };
//   constexpr auto fields_of(Type<Seat>) { return fields<&Seat::row, &Seat::colour>; }
//
// From it follow operator== here (where the struct has none of its own), and to_json, from_json and
// a text for other ranks in fields_json.h, with the members' names as keys. A description that
// leaves out a member, or has one twice, does not compile where any of them is used: a field cannot
// be forgotten.
namespace hetpipe {

template <class T>
struct Type {};  // T as an argument

template <auto... Member>
struct Fields {};
template <auto... Member>
inline constexpr Fields<Member...> fields;

template <class T>
concept Described = requires {
  fields_of(Type<T>{});
};

namespace fields_detail {

// C++ has no name for it but in the compiler's own words: "... Member = &hetpipe::Seat::row]".
template <auto Member>
consteval std::string_view name_of() {
  constexpr std::string_view kBefore = "Member = &";
  const std::string_view words = __PRETTY_FUNCTION__;
  const std::size_t start = words.find(kBefore) + kBefore.size();
  const std::string_view path = words.substr(start, words.find_first_of(";]", start) - start);
  const std::string_view name = path.substr(path.rfind(':') + 1);
  if (name.find_first_of(" &()*") != name.npos) throw "a compiler with other words";
  return name;
}

// Initialises a member of any type.
struct Anything {
  template <class T>
  operator T() const;
};

template <class T, std::size_t... I>
consteval bool takes(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Anything{})...}; };
}

}  // namespace fields_detail

template <auto Member>
struct Field {
  static constexpr auto member = Member;
  static constexpr std::string_view name = fields_detail::name_of<Member>();
};

namespace fields_detail {

template <auto... Member, class Visit>
constexpr void for_each(Fields<Member...>, const Visit& visit) {
  (visit(Field<Member>()), ...);
}

}  // namespace fields_detail

// Calls `visit` with each Field, in their order.
template <Described T, class Visit>
constexpr void for_each_field(const Visit& visit) {
  fields_detail::for_each(fields_of(Type<T>{}), visit);
}

namespace fields_detail {

// As many members as an aggregate takes initialisers: so it has neither bases nor plain arrays.
template <class T, auto... Member>
consteval bool are_all(Fields<Member...>) {
  constexpr std::size_t count = sizeof...(Member);
  constexpr auto stands_once = []<class One>(One) {
    return (0 + ... + (std::is_same_v<One, Field<Member>> ? 1 : 0)) == 1;
  };
  return std::is_aggregate_v<T> && (stands_once(Field<Member>()) && ...) &&
         takes<T>(std::make_index_sequence<count>()) &&
         !takes<T>(std::make_index_sequence<count + 1>());
}

}  // namespace fields_detail

// Whether a description has every member of its struct, and each once.
template <Described T>
consteval bool describes_all() {
  return fields_detail::are_all<T>(fields_of(Type<T>{}));
}

template <Described T>
constexpr bool operator==(const T& a, const T& b) {
  static_assert(describes_all<T>(), "fields_of leaves out a member, or has one twice");
  bool equal = true;
  for_each_field<T>([&](auto field) { equal = equal && a.*field.member == b.*field.member; });
  return equal;
}

}  // namespace hetpipe
