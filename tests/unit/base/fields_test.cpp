// SPDX-License-Identifier: Apache-2.0
#include "base/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/fields_json.h"
#include "base/precision.h"
#include "tests/unit/base/travels.h"

namespace hetpipe {

// Structs of this test, in the namespace whose operator== is the described one.
struct FieldsSeat {
  int row = 0;
  std::string colour = "red";
  std::optional<double> width;
};
constexpr auto fields_of(Type<FieldsSeat>) {
  return fields<&FieldsSeat::row, &FieldsSeat::colour, &FieldsSeat::width>;
}

struct FieldsCar {
  FieldsSeat driver;
  std::vector<FieldsSeat> others;
  std::map<std::string, std::vector<int>> numbers;
  std::optional<FieldsSeat> best;
  std::vector<bool> doors;
  std::uint64_t mileage = 0;
  double speed = 0;
  bool sold = false;
  Precision precision = Precision::fp32;
};
constexpr auto fields_of(Type<FieldsCar>) {
  return fields<&FieldsCar::driver, &FieldsCar::others, &FieldsCar::numbers, &FieldsCar::best,
                &FieldsCar::doors, &FieldsCar::mileage, &FieldsCar::speed, &FieldsCar::sold,
                &FieldsCar::precision>;
}

namespace fields_test {

static_assert(describes_all<FieldsSeat>());
static_assert(describes_all<FieldsCar>());

// Descriptions that would not compile where they are used.
struct Forgotten {
  int row = 0;
  std::string colour;
};
constexpr auto fields_of(Type<Forgotten>) { return fields<&Forgotten::row>; }
static_assert(!describes_all<Forgotten>());

struct LastForgotten {
  std::string colour;
  std::optional<FieldsSeat> seat;
};
constexpr auto fields_of(Type<LastForgotten>) { return fields<&LastForgotten::colour>; }
static_assert(!describes_all<LastForgotten>());

struct Twice {
  int row = 0;
  int column = 0;
};
constexpr auto fields_of(Type<Twice>) { return fields<&Twice::row, &Twice::row>; }
static_assert(!describes_all<Twice>());

struct TwiceAndAll {
  int row = 0;
  int column = 0;
};
constexpr auto fields_of(Type<TwiceAndAll>) {
  return fields<&TwiceAndAll::row, &TwiceAndAll::column, &TwiceAndAll::row>;
}
static_assert(!describes_all<TwiceAndAll>());

struct WithBase : FieldsSeat {
  int row_of_its_own = 0;
};
constexpr auto fields_of(Type<WithBase>) { return fields<&WithBase::row_of_its_own>; }
static_assert(!describes_all<WithBase>());

struct NotDescribed {};
static_assert(!Described<NotDescribed>);

FieldsCar car() {
  FieldsCar car = test::filled<FieldsCar>();
  car.precision = Precision::bf16;
  return car;
}

TEST(Fields, TravelAsTheyAre) {
  test::expect_all_travels(car());
  test::expect_travels(FieldsCar{});
  FieldsCar empty = car();
  empty.others.clear();
  empty.best.reset();
  empty.numbers.clear();
  test::expect_travels(empty);
}

TEST(Fields, HaveTheNamesOfTheirDescription) {
  FieldsSeat seat{.row = 2, .colour = "blue", .width = 0.5};
  EXPECT_EQ(to_text(seat), R"({"row":2,"colour":"blue","width":0.5})");
  seat.width.reset();
  EXPECT_EQ(to_text(seat), R"({"row":2,"colour":"blue","width":null})");
}

TEST(Fields, EveryOneOfThemCountsForEquality) {
  const FieldsCar one = car();
  EXPECT_EQ(one, car());
  const auto differs = [&](auto change) {
    FieldsCar other = car();
    change(other);
    return !(other == one);
  };
  EXPECT_TRUE(differs([](FieldsCar& other) { ++other.driver.row; }));
  EXPECT_TRUE(differs([](FieldsCar& other) { other.others[1].width.reset(); }));
  EXPECT_TRUE(differs([](FieldsCar& other) { other.numbers["a"][1] = 0; }));
  EXPECT_TRUE(differs([](FieldsCar& other) { other.best->colour += "x"; }));
  EXPECT_TRUE(differs([](FieldsCar& other) { other.doors.flip(); }));
  EXPECT_TRUE(differs([](FieldsCar& other) { --other.mileage; }));
  EXPECT_TRUE(differs([](FieldsCar& other) { other.speed = 0; }));
  EXPECT_TRUE(differs([](FieldsCar& other) { other.sold = !other.sold; }));
  EXPECT_TRUE(differs([](FieldsCar& other) { other.precision = Precision::fp16; }));
}

TEST(Fields, NumbersThatJsonDoesNotHave) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double value : {kInfinity, -kInfinity, -0.0, 5e-324, 1.7976931348623157e308, 0.1}) {
    EXPECT_EQ(from_text<double>(to_text(value)), value);
    EXPECT_EQ(std::signbit(from_text<double>(to_text(value))), std::signbit(value));
  }
  EXPECT_TRUE(std::isnan(from_text<double>(to_text(std::nan("")))));
}

TEST(Fields, AnErrorSaysWhereItIs) {
  const auto refused = [](const std::string& text) {
    return test::refusal_of<FieldsCar>(Json::parse(text));
  };
  const std::string text = to_text(FieldsCar{});
  const auto with = [&](const std::string& key, const Json& value) {
    Json json = Json::parse(text);
    json[key] = value;
    return json.dump();
  };
  EXPECT_EQ(refused("[]"), "[] is not an object");
  EXPECT_EQ(refused(with("sold", 1)), "sold: 1 is not true or false");
  EXPECT_EQ(refused(with("driver", {{"row", 1}, {"colour", "c"}})),
            "driver: the key 'width' is missing");
  EXPECT_EQ(refused(with("driver", {{"row", 1}, {"colour", 2}, {"width", 1}})),
            "driver.colour: 2 is not a string");
  EXPECT_EQ(refused(with("others", Json::Array{to_json(FieldsSeat{}), 7})),
            "others[1]: 7 is not an object");
  EXPECT_EQ(refused(with("numbers", {{"x", Json::Array{1, 2, "3"}}})),
            "numbers.x[2]: \"3\" is not a whole number from -2147483648 to 2147483647");
  EXPECT_EQ(refused(with("doors", Json::Array{true, nullptr})),
            "doors[1]: null is not true or false");
  EXPECT_THAT(refused(with("precision", "fp8")), testing::HasSubstr("precision: \"fp8\""));
}

}  // namespace fields_test
}  // namespace hetpipe
