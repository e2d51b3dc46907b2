// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <nlohmann/json.hpp>

namespace hetpipe {
namespace {

// Documents are walked by recursion: a file that is nothing but brackets shall not end the program.
constexpr std::size_t kMostLevels = 200;

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

}  // namespace

Json Json::parse(std::string_view text) {
  Builder builder;
  if (!Library::sax_parse(text, &builder)) throw JsonError("not JSON: " + builder.problem());
  return std::move(builder.whole());
}

std::string Json::dump(int indent) const {
  return to_library(*this).dump(indent, ' ', false, Library::error_handler_t::replace);
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
