// SPDX-License-Identifier: Apache-2.0
#include "launch/plan_json.h"

#include <nlohmann/json.hpp>

#include "partitioner/toml_file.h"

namespace hetpipe {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const TomlValue& value) {
  switch (value.kind) {
    case TomlValue::Kind::string:
      return value.text;
    case TomlValue::Kind::integer:
      return value.integer;
    case TomlValue::Kind::real:
      return value.real;
    case TomlValue::Kind::boolean:
      return value.boolean;
    case TomlValue::Kind::array: {
      Json array = Json::array();
      for (const TomlValue& item : value.items) array.push_back(json_of(item));
      return array;
    }
    case TomlValue::Kind::table: {
      Json object = Json::object();
      for (const auto& [key, entry] : value.entries) object[key] = json_of(entry);
      return object;
    }
    case TomlValue::Kind::other:
      break;
  }
  ensure(false, "a plan file holds neither dates nor times");
  return {};
}

}  // namespace

// By way of the file form, so that the two cannot come to differ.
std::string to_json(const Plan& plan) {
  return json_of(parse_toml(to_toml(plan), "plan")).dump(2) + '\n';
}

}  // namespace hetpipe
