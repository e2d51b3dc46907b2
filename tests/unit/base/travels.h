// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <concepts>
#include <limits>
#include <string>
#include <vector>

#include "base/fields_json.h"

// That a described struct reaches another rank as it is. Compared by value, since two texts may be
// alike for want of the same field.
namespace hetpipe::test {

// Sets every field to something that is not its default, and no two alike: what a description
// forgets, or puts in another's place, shows. Types with a form of their own are left to the
// caller.
class Filler {
 public:
  template <class T>
  void fill(T& value) {
    using namespace fields_detail;
    if constexpr (Described<T>) {
      for_each_field<T>([&](auto field) { fill(value.*field.member); });
    } else if constexpr (is_optional<T>) {
      fill(value.emplace());
    } else if constexpr (is_vector<T>) {
      value.resize(2);
      for (auto&& item : value) {
        typename T::value_type filled = item;
        fill(filled);
        item = filled;
      }
    } else if constexpr (is_map<T>) {
      fill(value["b"]);
      fill(value["a"]);
    } else if constexpr (std::same_as<T, bool>) {
      value = !value;
    } else if constexpr (std::is_floating_point_v<T>) {
      ++count_;
      value = count_ % 5 == 0 ? std::numeric_limits<T>::infinity() : count_ / T{3};
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(std::numeric_limits<T>::max() - static_cast<T>(++count_));
    } else if constexpr (std::same_as<T, std::string>) {
      ++count_;
      value = (count_ % 3 == 0 ? "\xff\xe2 " : "ü \"\n") + std::to_string(count_);
    }
  }

 private:
  int count_ = 0;
};

template <class T>
T filled() {
  T value{};
  Filler().fill(value);
  return value;
}

// The description as one document without one of its keys.
inline Json without(const Json& object, const std::string& key) {
  Json rest = Json::object();
  for (const Json::Member& member : object.members()) {
    if (member.key != key) rest[member.key] = member.value;
  }
  return rest;
}

template <class T>
std::string refusal_of(const Json& json) {
  try {
    from_json<T>(json);
  } catch (const JsonError& error) {
    return error.what();
  }
  return "no error";
}

// `value` comes back as it is; each key has to be there, and no other may be.
template <class T>
void expect_travels(const T& value) {
  EXPECT_TRUE(from_text<T>(to_text(value)) == value) << to_text(value);
  Json json = to_json(value);
  for (const Json::Member& member : json.members()) {
    SCOPED_TRACE(member.key);
    EXPECT_EQ(refusal_of<T>(without(json, member.key)), "the key '" + member.key + "' is missing");
    const T rest = from_json<T>(without(json, member.key), Keys::as_far_as_known);
    EXPECT_TRUE(rest == value || to_json(rest).at(member.key) == to_json(T{}).at(member.key));
  }
  json["of another build"] = 1;
  EXPECT_EQ(refusal_of<T>(json), "the key 'of another build' is unknown");
  EXPECT_TRUE(from_json<T>(json, Keys::as_far_as_known) == value);
}

// Likewise, with every field changed: none of them takes its default on the way.
template <class T>
void expect_all_travels(const T& value) {
  const Json json = to_json(value);
  const Json plain = to_json(T{});
  for (const Json::Member& member : json.members()) {
    EXPECT_NE(member.value, plain.at(member.key)) << member.key << " is as by default";
  }
  expect_travels(value);
}

}  // namespace hetpipe::test
