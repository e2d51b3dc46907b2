// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// JSON documents as plain values. The library behind parse and dump is included in json.cpp alone.
namespace hetpipe {

// A document that is not JSON, or does not hold what was looked for; what() says where.
class JsonError : public std::runtime_error {
 public:
  explicit JsonError(const std::string& text) : JsonError("", text) {}
  // The same problem, one level further out: `step` is a key or "[2]".
  JsonError inside(const std::string& step) const;

 private:
  JsonError(const std::string& path, const std::string& text);
  std::string path_;  // "start.label"
  std::string text_;
};

// Objects keep their keys in the order in which they were added, and each once. Numbers keep
// whether they are whole; equality goes by value, whatever the order of keys.
class Json {
 public:
  struct Member;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string,
                             Array, Object>;
  static constexpr int kOneLine = -1;  // of dump

  Json();  // null
  Json(std::nullptr_t);
  template <std::same_as<bool> Bool>
  Json(Bool value);
  template <std::signed_integral Integer>
  Json(Integer value);
  template <std::unsigned_integral Integer>
  requires(!std::same_as<Integer, bool>) Json(Integer value);
  template <std::floating_point Real>
  Json(Real value);
  Json(const char* text);
  Json(std::string text);
  Json(std::string_view text);
  Json(std::initializer_list<Member> members);  // {{"key", value}, ...}
  Json(Array items);
  template <class T>
  Json(const std::vector<T>& items);
  template <class T>
  Json(const std::map<std::string, T>& entries);
  template <class T>
  Json(const std::optional<T>& value);  // nothing: null

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array();   // an empty one
  static Json object();  // likewise

  // One document, of which a key that stands twice has the later value. JsonError with line and
  // column; also for more than 200 levels.
  static Json parse(std::string_view text);
  // In one line, or indented. Numbers in the fewest digits that read back as the same ("1.0" for a
  // real number), those that are not finite as null; bytes that are not UTF-8 as U+FFFD.
  std::string dump(int indent = kOneLine) const;

  const Value& value() const { return value_; }
  bool is_null() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;

  // bool, a whole number that fits, a real number (a whole one will do) or std::string. JsonError
  // where it is anything else.
  template <class T>
  T get() const;

  // JsonError where it is no object or array. Not of a temporary, which a loop over them outlives.
  const Object& members() const&;
  const Object& members() const&& = delete;
  const Array& items() const&;
  const Array& items() const&& = delete;
  const Json* find(std::string_view key) const;  // null: there is none, or it is no object
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  const Json& at(std::string_view key) const;  // JsonError where there is none
  const Json& at(std::size_t index) const;     // likewise
  std::size_t size() const;                    // of an array or object; null has 0

  // The place of this string among these words; JsonError where it is none of them.
  std::size_t place_in(const std::vector<std::string>& words) const;

  // To build one with: null becomes an object or array.
  Json& operator[](std::string_view key);
  void push_back(Json item);

  friend bool operator==(const Json& a, const Json& b);
  friend std::ostream& operator<<(std::ostream& out, const Json& json);  // as dump()

 private:
  bool boolean() const;
  std::int64_t whole(std::int64_t least, std::int64_t most) const;
  std::uint64_t natural(std::uint64_t most) const;
  double real() const;
  const std::string& text() const;
  [[noreturn]] void refuse(const std::string& wanted) const;

  Value value_;
};

struct Json::Member {
  std::string key;
  Json value;
};

// Whether dump() keeps a text as it is.
bool is_utf8(std::string_view text);

// --- templates ---

template <std::same_as<bool> Bool>
Json::Json(Bool value) : value_(value) {}
template <std::signed_integral Integer>
Json::Json(Integer value) : value_(static_cast<std::int64_t>(value)) {}
template <std::unsigned_integral Integer>
requires(!std::same_as<Integer, bool>) Json::Json(Integer value)
    : value_(static_cast<std::uint64_t>(value)) {}
template <std::floating_point Real>
Json::Json(Real value) : value_(static_cast<double>(value)) {}

template <class T>
Json::Json(const std::vector<T>& items) : value_(Array(items.begin(), items.end())) {}

template <class T>
Json::Json(const std::map<std::string, T>& entries) : value_(Object()) {
  auto& members = std::get<Object>(value_);
  for (const auto& [key, value] : entries) members.push_back({key, value});
}

template <class T>
Json::Json(const std::optional<T>& value) {
  if (value) *this = Json(*value);
}

template <class T>
T Json::get() const {
  if constexpr (std::same_as<T, bool>) {
    return boolean();
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<T>(whole(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  } else if constexpr (std::unsigned_integral<T>) {
    return static_cast<T>(natural(std::numeric_limits<T>::max()));
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(real());
  } else {
    static_assert(std::same_as<T, std::string>, "fields_json.h reads everything else");
    return text();
  }
}

}  // namespace hetpipe
