// SPDX-License-Identifier: Apache-2.0
#include "base/fields_json.h"

#include <cmath>
#include <limits>

namespace hetpipe::fields_detail {
namespace {

constexpr const char* kNan = "nan";
constexpr const char* kInfinity = "infinity";
constexpr const char* kMinusInfinity = "-infinity";

}  // namespace

Json json_of_real(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? kNan : value > 0 ? kInfinity : kMinusInfinity;
}

double real_of_json(const Json& json) {
  using Limits = std::numeric_limits<double>;
  if (json == kNan) return Limits::quiet_NaN();
  if (json == kInfinity) return Limits::infinity();
  if (json == kMinusInfinity) return -Limits::infinity();
  return json.get<double>();
}

Json json_of_string(const std::string& text) {
  if (is_utf8(text)) return text;
  Json bytes = Json::array();
  for (const char letter : text) bytes.push_back(static_cast<unsigned char>(letter));
  return bytes;
}

std::string string_of_json(const Json& json) {
  if (!json.is_array()) return json.get<std::string>();
  std::string text;
  for (const Json& byte : json.items()) text += static_cast<char>(byte.get<unsigned char>());
  return text;
}

}  // namespace hetpipe::fields_detail
