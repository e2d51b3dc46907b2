// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/fields.h"
#include "base/json.h"

// Values as JSON and back, as one rank tells them to others: described structs (fields.h), bool,
// numbers, strings, and std::optional, std::vector and std::map<std::string, ...> of these. What is
// read is what was written: every bit of a number, and bytes that are not UTF-8. A type with a form
// of its own has, beside it,
//
//   Json to_json(const X&);
//   void from_json(const Json&, X&);  // JsonError, or UserError where it is a file's text
namespace hetpipe {

// Ranks of one build have the same fields. Before it is known that they are of one build, what is
// missing keeps its default, and what is not known is passed over.
enum class Keys { all, as_far_as_known };

template <class T>
Json to_json(const T& value);
template <class T>
void read_json(const Json& json, T& value, Keys keys);

// JsonError names the key: "start.label: "x" is not a whole number ...".
template <class T>
T from_json(const Json& json, Keys keys = Keys::all) {
  T value{};
  read_json(json, value, keys);
  return value;
}

template <class T>
std::string to_text(const T& value) {
  return to_json(value).dump();
}
template <class T>
T from_text(std::string_view text, Keys keys = Keys::all) {
  return from_json<T>(Json::parse(text), keys);
}

namespace fields_detail {

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <class T>
constexpr bool is_vector = false;
template <class T>
constexpr bool is_vector<std::vector<T>> = true;
template <class T>
constexpr bool is_map = false;
template <class T>
constexpr bool is_map<std::map<std::string, T>> = true;

// What JSON has no form for: numbers that are not finite by name, other bytes than UTF-8 by number.
Json json_of_real(double value);
double real_of_json(const Json& json);
Json json_of_string(const std::string& text);
std::string string_of_json(const Json& json);

// An error inside of what `read` reads says that it is there.
template <class Read>
void read_inside(const std::string& step, const Read& read) {
  try {
    read();
  } catch (const JsonError& error) {
    throw error.inside(step);
  }
}

template <class T>
void refuse_unknown_keys(const Json& json) {
  for (const Json::Member& member : json.members()) {
    bool known = false;
    for_each_field<T>([&](auto field) { known = known || field.name == member.key; });
    if (!known) throw JsonError("the key '" + member.key + "' is unknown");
  }
}

template <class T>
void read_fields(const Json& json, T& value, Keys keys) {
  if (keys == Keys::all) refuse_unknown_keys<T>(json);
  for_each_field<T>([&](auto field) {
    if (keys == Keys::as_far_as_known && !json.contains(field.name)) return;
    const Json& found = json.at(field.name);
    read_inside(std::string(field.name), [&] { read_json(found, value.*field.member, keys); });
  });
}

}  // namespace fields_detail

template <class T>
Json to_json(const T& value) {
  using namespace fields_detail;
  if constexpr (Described<T>) {
    static_assert(describes_all<T>(), "fields_of leaves out a member, or has one twice");
    Json object = Json::object();
    for_each_field<T>([&](auto field) { object[field.name] = to_json(value.*field.member); });
    return object;
  } else if constexpr (is_optional<T>) {
    return value ? to_json(*value) : Json();
  } else if constexpr (is_vector<T>) {
    Json array = Json::array();
    for (const typename T::value_type& item : value) array.push_back(to_json(item));
    return array;
  } else if constexpr (is_map<T>) {
    Json object = Json::object();
    for (const auto& [key, item] : value) object[key] = to_json(item);
    return object;
  } else if constexpr (std::is_floating_point_v<T>) {
    return json_of_real(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return json_of_string(value);
  } else {
    static_assert(std::is_integral_v<T>, "neither described (fields.h) nor with a to_json");
    return value;
  }
}

template <class T>
void read_json(const Json& json, T& value, Keys keys) {
  using namespace fields_detail;
  if constexpr (Described<T>) {
    static_assert(describes_all<T>(), "fields_of leaves out a member, or has one twice");
    read_fields(json, value, keys);
  } else if constexpr (is_optional<T>) {
    value.reset();
    if (!json.is_null()) read_json(json, value.emplace(), keys);
  } else if constexpr (is_vector<T>) {
    value.clear();
    for (const Json& item : json.items()) {
      read_inside("[" + std::to_string(value.size()) + "]", [&] {
        typename T::value_type one{};
        read_json(item, one, keys);
        value.push_back(std::move(one));
      });
    }
  } else if constexpr (is_map<T>) {
    value.clear();
    for (const Json::Member& entry : json.members()) {
      read_inside(entry.key, [&] { read_json(entry.value, value[entry.key], keys); });
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    value = static_cast<T>(real_of_json(json));
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = string_of_json(json);
  } else if constexpr (std::is_integral_v<T>) {
    value = json.get<T>();
  } else {
    from_json(json, value);
  }
}

}  // namespace hetpipe
