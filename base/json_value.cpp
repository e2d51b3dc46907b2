// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <algorithm>
#include <ostream>

namespace hetpipe {
namespace {

constexpr std::size_t kShown = 40;  // letters of a value in a message

template <class A, class B>
bool same_number(A a, B b) {
  if constexpr (std::integral<A> && std::integral<B>) {
    return std::cmp_equal(a, b);
  } else {
    return static_cast<double>(a) == static_cast<double>(b);
  }
}

template <class T>
constexpr bool is_a_number =
    std::same_as<T, double> || std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t>;

bool same_members(const Json& a, const Json& b) {
  return a.size() == b.size() &&
         std::all_of(a.members().begin(), a.members().end(), [&](const Json::Member& member) {
           const Json* const other = b.find(member.key);
           return other != nullptr && *other == member.value;
         });
}

}  // namespace

JsonError::JsonError(const std::string& path, const std::string& text)
    : std::runtime_error(path.empty() ? text : path + ": " + text), path_(path), text_(text) {}

JsonError JsonError::inside(const std::string& step) const {
  const bool key = !path_.empty() && !path_.starts_with('[');
  return {step + (key ? "." : "") + path_, text_};
}

Json::Json() : value_(nullptr) {}
Json::Json(std::nullptr_t) : value_(nullptr) {}
Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(Array items) : value_(std::move(items)) {}
Json::Json(std::initializer_list<Member> members) : value_(Object(members)) {}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json Json::array() { return Array(); }

Json Json::object() {
  Json json;
  json.value_ = Object();
  return json;
}

bool Json::is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
bool Json::is_string() const { return std::holds_alternative<std::string>(value_); }
bool Json::is_array() const { return std::holds_alternative<Array>(value_); }
bool Json::is_object() const { return std::holds_alternative<Object>(value_); }

void Json::refuse(const std::string& wanted) const {
  std::string shown = dump();
  if (shown.size() > kShown) shown = shown.substr(0, kShown) + "...";
  throw JsonError(shown + " is not " + wanted);
}

const Json::Object& Json::members() const& {
  if (!is_object()) refuse("an object");
  return std::get<Object>(value_);
}

const Json::Array& Json::items() const& {
  if (!is_array()) refuse("an array");
  return std::get<Array>(value_);
}

const Json* Json::find(std::string_view key) const {
  if (!is_object()) return nullptr;
  const Object& all = members();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Member& member) { return member.key == key; });
  return found == all.end() ? nullptr : &found->value;
}

const Json& Json::at(std::string_view key) const {
  members();
  const Json* const value = find(key);
  if (value == nullptr) throw JsonError("the key '" + std::string(key) + "' is missing");
  return *value;
}

const Json& Json::at(std::size_t index) const {
  const Array& all = items();
  if (index >= all.size()) {
    throw JsonError("an array of " + std::to_string(all.size()) + " has no item " +
                    std::to_string(index));
  }
  return all[index];
}

std::size_t Json::size() const {
  if (is_null()) return 0;
  return is_object() ? members().size() : items().size();
}

std::size_t Json::place_in(const std::vector<std::string>& words) const {
  const auto found = std::find(words.begin(), words.end(), text());
  if (found == words.end()) refuse("one of " + Json(words).dump());
  return static_cast<std::size_t>(found - words.begin());
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  if (Json* const value = const_cast<Json*>(find(key))) return *value;
  if (!is_object()) refuse("an object");
  return std::get<Object>(value_).emplace_back(Member{std::string(key), {}}).value;
}

void Json::push_back(Json item) {
  if (is_null()) value_ = Array();
  if (!is_array()) refuse("an array");
  std::get<Array>(value_).push_back(std::move(item));
}

bool operator==(const Json& a, const Json& b) {
  return std::visit(
      [&]<class A, class B>(const A& one, const B& other) {
        if constexpr (is_a_number<A> && is_a_number<B>) {
          return same_number(one, other);
        } else if constexpr (std::same_as<A, Json::Object> && std::same_as<B, Json::Object>) {
          return same_members(a, b);
        } else if constexpr (std::same_as<A, B>) {
          return one == other;
        } else {
          return false;
        }
      },
      a.value_, b.value_);
}

std::ostream& operator<<(std::ostream& out, const Json& json) { return out << json.dump(); }

bool Json::boolean() const {
  if (!std::holds_alternative<bool>(value_)) refuse("true or false");
  return std::get<bool>(value_);
}

std::int64_t Json::whole(std::int64_t least, std::int64_t most) const {
  return std::visit(
      [&]<class T>(const T& value) -> std::int64_t {
        if constexpr (std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t>) {
          if (std::cmp_greater_equal(value, least) && std::cmp_less_equal(value, most)) {
            return static_cast<std::int64_t>(value);
          }
        }
        refuse("a whole number from " + std::to_string(least) + " to " + std::to_string(most));
      },
      value_);
}

std::uint64_t Json::natural(std::uint64_t most) const {
  return std::visit(
      [&]<class T>(const T& value) -> std::uint64_t {
        if constexpr (std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t>) {
          if (std::cmp_greater_equal(value, 0) && std::cmp_less_equal(value, most)) {
            return static_cast<std::uint64_t>(value);
          }
        }
        refuse("a whole number from 0 to " + std::to_string(most));
      },
      value_);
}

double Json::real() const {
  return std::visit(
      [&]<class T>(const T& value) -> double {
        if constexpr (is_a_number<T>) {
          return static_cast<double>(value);
        } else {
          refuse("a number");
        }
      },
      value_);
}

const std::string& Json::text() const {
  if (!is_string()) refuse("a string");
  return std::get<std::string>(value_);
}

}  // namespace hetpipe
