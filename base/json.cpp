// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

namespace hetpipe {
namespace {

// Documents are walked by recursion: a file that is nothing but brackets shall not end the program.
constexpr std::size_t kMostLevels = 200;
constexpr std::size_t kShown = 40;  // letters of a value in a message

using Library = nlohmann::ordered_json;

Library to_library(const Json& json) {
  return std::visit(
      []<class T>(const T& value) {
        if constexpr (std::same_as<T, Json::Array>) {
          Library array = Library::array();
          for (const Json& item : value) array.push_back(to_library(item));
          return array;
        } else if constexpr (std::same_as<T, Json::Object>) {
          Library object = Library::object();
          // Not by its own insertion, which looks for the key among all before: Json has done that.
          auto& entries = object.get_ref<Library::object_t&>();
          for (const auto& [key, item] : value) entries.emplace_back(key, to_library(item));
          return object;
        } else {
          return Library(value);
        }
      },
      json.value());
}

// From the library's events to a value.
class Builder : public Library::json_sax_t {
 public:
  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& text) override { return add(std::move(text)); }
  bool binary(binary_t&) override { return false; }  // no JSON has any
  bool key(string_t& text) override {
    key_ = std::move(text);
    return true;
  }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  // "line 1, column 5: syntax error while parsing value - ...", without the library's own number.
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    const std::string_view said = error.what();
    constexpr std::string_view kAt = "parse error at ";
    if (const std::size_t at = said.find(kAt); at != said.npos) {
      problem_ = said.substr(at + kAt.size());
    } else {
      problem_ =
          "byte " + std::to_string(byte) + ": " + std::string(said.substr(said.find(' ') + 1));
    }
    return false;
  }

  Json& whole() { return whole_; }
  const std::string& problem() const { return problem_; }

 private:
  Json* put(Json value) {
    if (open_.empty()) {
      whole_ = std::move(value);
      return &whole_;
    }
    Json& into = *open_.back();
    if (into.is_object()) {
      Json& place = into[key_];
      place = std::move(value);
      return &place;
    }
    into.push_back(std::move(value));
    return const_cast<Json*>(&into.items().back());
  }
  bool add(Json value) {
    put(std::move(value));
    return true;
  }
  bool open(Json container) {
    if (open_.size() == kMostLevels) {
      problem_ = "more than " + std::to_string(kMostLevels) + " levels of brackets";
      return false;
    }
    open_.push_back(put(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json whole_;
  std::vector<Json*> open_;  // outermost first; stays where it is while it is open
  std::string key_;
  std::string problem_;
};

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

Json Json::parse(std::string_view text) {
  Builder builder;
  if (!Library::sax_parse(text, &builder)) throw JsonError("not JSON: " + builder.problem());
  return std::move(builder.whole());
}

std::string Json::dump(int indent) const {
  return to_library(*this).dump(indent, ' ', false, Library::error_handler_t::replace);
}

bool Json::is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
bool Json::is_string() const { return std::holds_alternative<std::string>(value_); }
bool Json::is_array() const { return std::holds_alternative<Array>(value_); }
bool Json::is_object() const { return std::holds_alternative<Object>(value_); }
bool Json::is_number() const {
  return std::visit([]<class T>(const T&) { return is_a_number<T>; }, value_);
}

void Json::refuse(const std::string& wanted) const {
  std::string shown = dump();
  if (shown.size() > kShown) shown = shown.substr(0, kShown) + "...";
  throw JsonError(shown + " is not " + wanted);
}

const Json::Object& Json::members() const {
  if (!is_object()) refuse("an object");
  return std::get<Object>(value_);
}

const Json::Array& Json::items() const {
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

bool is_utf8(std::string_view text) {
  try {
    Library(text).dump();
    return true;
  } catch (const Library::type_error&) {
    return false;
  }
}

}  // namespace hetpipe
