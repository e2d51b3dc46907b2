// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace hetpipe {
namespace json_test {

using testing::HasSubstr;
using Library = nlohmann::ordered_json;

constexpr int kDocuments = 2000;
const std::string kNoError = "no error";

std::string message_of(const std::function<void()>& fails) {
  try {
    fails();
  } catch (const JsonError& error) {
    return error.what();
  }
  return kNoError;
}

// The same document twice: as ours, and by the library.
struct Both {
  Json ours;
  Library theirs;
};

class Documents {
 public:
  explicit Documents(unsigned seed) : random_(seed) {}

  Both next(int levels = 4) {
    switch (below(levels > 0 ? 9 : 7)) {
      case 0:
        return {nullptr, nullptr};
      case 1:
        return both(below(2) == 1);
      case 2:
        return both(static_cast<std::int64_t>(bits()) >> below(64));
      case 3:
        return both(bits() >> below(64));
      case 4:
        return both(std::bit_cast<double>(bits()));  // of any size, and some that are not finite
      case 5:
        return both(std::round(static_cast<double>(below(2000)) - 1000) / (below(2) ? 1 : 8));
      case 6:
        return both(text());
      case 7: {
        Both array{Json::array(), Library::array()};
        for (int items = below(5); items > 0; --items) {
          Both item = next(levels - 1);
          array.ours.push_back(item.ours);
          array.theirs.push_back(item.theirs);
        }
        return array;
      }
      default: {
        Both object{Json::object(), Library::object()};
        for (int members = below(5); members > 0; --members) {
          const std::string key = below(3) == 0 ? "again" : text();
          Both member = next(levels - 1);
          object.ours[key] = member.ours;
          object.theirs[key] = member.theirs;
        }
        return object;
      }
    }
  }

  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

 private:
  template <class T>
  static Both both(const T& value) {
    return {Json(value), Library(value)};
  }
  std::uint64_t bits() { return random_(); }

  // Letters that JSON writes in ways of their own, and bytes that are no letters.
  std::string text() {
    static const std::vector<std::string> kPieces{"a", "\"",   "\\",   "/",        "\n", "\x01",
                                                  "ü", "\x7f", "\xff", "\xe2\x82", "😀",  "\xc3"};
    std::string text;
    for (int pieces = below(6); pieces > 0; --pieces) {
      text += kPieces[static_cast<std::size_t>(below(static_cast<int>(kPieces.size())))];
    }
    if (below(20) == 0) text += '\0';
    return text;
  }

  std::mt19937_64 random_;
};

std::string dumped(const Library& json, int indent) {
  return json.dump(indent, ' ', false, Library::error_handler_t::replace);
}

// What other programs have read of us stays as it is, letter by letter.
TEST(Json, IsWrittenAsTheLibraryWritesIt) {
  Documents documents(1);
  for (int i = 0; i < kDocuments; ++i) {
    const Both both = documents.next();
    ASSERT_EQ(both.ours.dump(), dumped(both.theirs, -1));
    ASSERT_EQ(both.ours.dump(2), dumped(both.theirs, 2));
  }
}

TEST(Json, IsReadAsTheLibraryReadsIt) {
  Documents documents(2);
  for (int i = 0; i < kDocuments; ++i) {
    const std::string text = dumped(documents.next().theirs, i % 2 ? 2 : -1);
    const Json read = Json::parse(text);
    ASSERT_EQ(read.dump(), dumped(Library::parse(text), -1)) << text;
    ASSERT_EQ(Json::parse(read.dump()), read) << text;
  }
}

// Cut short or with one byte changed: refused where the library refuses it, else read alike.
TEST(Json, DamageIsNoticed) {
  Documents documents(3);
  for (int i = 0; i < kDocuments; ++i) {
    std::string text = documents.next().ours.dump();
    if (text.empty()) continue;
    const auto place = static_cast<std::size_t>(documents.below(static_cast<int>(text.size())));
    if (i % 2 == 0) {
      text.resize(place);
    } else {
      text[place] = static_cast<char>(documents.below(256));
    }
    const Library theirs = Library::parse(text, nullptr, /*allow_exceptions=*/false);
    const std::string message =
        message_of([&] { ASSERT_EQ(Json::parse(text).dump(), dumped(theirs, -1)) << text; });
    ASSERT_EQ(message == kNoError, !theirs.is_discarded()) << text << ": " << message;
  }
}

TEST(Json, SaysWhereItIsNotJson) {
  EXPECT_THAT(message_of([] { Json::parse("{\"a\": 1,\n \"b\": tru}"); }),
              HasSubstr("not JSON: line 2, column 10: syntax error while parsing value"));
  EXPECT_THAT(message_of([] { Json::parse(""); }), HasSubstr("unexpected end of input"));
  EXPECT_THAT(message_of([] { Json::parse("[1, 2] 3"); }), HasSubstr("line 1, column 8"));
  EXPECT_THAT(message_of([] { Json::parse("[1, 1e999]"); }),
              HasSubstr("not JSON: byte 9: number overflow parsing '1e999'"));
}

TEST(Json, SomeLevelsAreReadAndNotAnyNumber) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_EQ(Json::parse(nested(200)).dump(), nested(200));
  EXPECT_THAT(message_of([&] { Json::parse(nested(201)); }), HasSubstr("200 levels"));
  EXPECT_THAT(message_of([] { Json::parse(std::string(1'000'000, '[')); }), HasSubstr("levels"));
  EXPECT_THAT(message_of([&] { Json::parse(nested(1'000'000)); }), HasSubstr("levels"));
}

TEST(Json, KeysKeepTheirOrderAndStandOnce) {
  Json json{{"z", 1}, {"a", {{"y", nullptr}, {"b", Json::array()}}}};
  json["m"] = "text";
  json["z"] = 2.0;
  EXPECT_EQ(json.dump(), R"({"z":2.0,"a":{"y":null,"b":[]},"m":"text"})");
  EXPECT_EQ(Json::parse(R"({"z":1,"a":2,"z":3})").dump(), R"({"z":3,"a":2})");
  EXPECT_EQ(Json::object().dump(2), "{}");
  EXPECT_EQ(Json{}.dump(), "null");
}

TEST(Json, ValuesOfTheLanguage) {
  const std::map<std::string, int> entries{{"b", 2}, {"a", 1}};
  const Json json{
      {"numbers", std::vector<double>{1, 0.1}}, {"flags", std::vector<bool>{true, false}},
      {"words", std::vector<std::string>{"x"}}, {"entries", entries},
      {"none", std::optional<int>()},           {"some", std::optional<int>(3)},
      {"view", std::string_view("v")}};
  EXPECT_EQ(json.dump(),
            R"({"numbers":[1.0,0.1],"flags":[true,false],"words":["x"],"entries":{"a":1,"b":2},)"
            R"("none":null,"some":3,"view":"v"})");
}

TEST(Json, EqualityGoesByValue) {
  EXPECT_EQ(Json(1), Json(1u));
  EXPECT_EQ(Json(1), Json(1.0));
  EXPECT_NE(Json(-1), Json(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_NE(Json(1), Json(true));
  EXPECT_NE(Json(1), Json("1"));
  EXPECT_NE(Json(), Json(0));
  EXPECT_EQ(Json::parse(R"({"a":1,"b":[2]})"), Json::parse(R"({"b":[2.0],"a":1})"));
  EXPECT_NE(Json::parse(R"({"a":1})"), Json::parse(R"({"a":1,"b":2})"));
  EXPECT_NE(Json::parse(R"({"a":1,"c":2})"), Json::parse(R"({"a":1,"b":2})"));
  EXPECT_NE(Json::array(), Json::object());
}

TEST(Json, ValuesAreReadAsWhatTheyAre) {
  const Json json = Json::parse(
      R"({"flag":true,"small":-7,"large":18446744073709551615,"real":2.5,"whole":4,"text":"t"})");
  EXPECT_TRUE(json.at("flag").get<bool>());
  EXPECT_EQ(json.at("small").get<int>(), -7);
  EXPECT_EQ(json.at("large").get<std::uint64_t>(), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(json.at("real").get<double>(), 2.5);
  EXPECT_EQ(json.at("whole").get<double>(), 4);
  EXPECT_EQ(json.at("text").get<std::string>(), "t");
  EXPECT_TRUE(json.contains("text"));
  EXPECT_FALSE(json.contains("t"));
  EXPECT_FALSE(json.at("text").contains("t"));
  EXPECT_EQ(json.size(), 6u);
}

TEST(Json, WhatIsSomethingElseIsRefusedInWords) {
  const Json json = Json::parse(R"({"a":[1,2],"n":-1,"big":4294967296,"r":1.5,"t":"text"})");
  const auto refused = [&](const std::function<void()>& fails) { return message_of(fails); };
  EXPECT_EQ(refused([&] { json.at("b"); }), "the key 'b' is missing");
  EXPECT_EQ(refused([&] { json.at("a").at(2); }), "an array of 2 has no item 2");
  EXPECT_EQ(refused([&] { json.at("a").at("b"); }), "[1,2] is not an object");
  EXPECT_EQ(refused([&] { json.at("t").items(); }), "\"text\" is not an array");
  EXPECT_EQ(refused([&] { json.at("t").get<double>(); }), "\"text\" is not a number");
  EXPECT_EQ(refused([&] { json.at("n").get<bool>(); }), "-1 is not true or false");
  EXPECT_EQ(refused([&] { json.at("n").get<std::string>(); }), "-1 is not a string");
  EXPECT_EQ(refused([&] { json.at("n").get<std::size_t>(); }),
            "-1 is not a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(refused([&] { json.at("big").get<int>(); }),
            "4294967296 is not a whole number from -2147483648 to 2147483647");
  EXPECT_EQ(refused([&] { json.at("big").get<std::uint32_t>(); }),
            "4294967296 is not a whole number from 0 to 4294967295");
  EXPECT_THAT(refused([&] { json.at("r").get<int>(); }), HasSubstr("1.5 is not a whole number"));
  EXPECT_EQ(refused([&] { Json(std::string(100, 'x')).get<bool>(); }),
            "\"" + std::string(39, 'x') + "... is not true or false");
  Json number = 1;
  EXPECT_EQ(refused([&] { number["a"] = 1; }), "1 is not an object");
  EXPECT_EQ(refused([&] { number.push_back(1); }), "1 is not an array");
}

}  // namespace json_test
}  // namespace hetpipe
