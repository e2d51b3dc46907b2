// SPDX-License-Identifier: Apache-2.0
#include "base/precision.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace hetpipe {

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names{"fp32", "tf32", "bf16", "fp16"};
  return names;
}

std::string to_string(Precision precision) {
  return precision_names()[static_cast<std::size_t>(precision)];
}

Precision precision_named(const std::string& name) {
  const auto& names = precision_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw UserError("--precision", unknown("precision", name, names) + ". Choose one of them.");
  }
  return static_cast<Precision>(found - names.begin());
}

Json to_json(Precision precision) { return to_string(precision); }

void from_json(const Json& json, Precision& precision) {
  precision = static_cast<Precision>(json.place_in(precision_names()));
}

std::optional<Precision> PrecisionChoice::of(const std::string& kind) const {
  const auto found = of_kind.find(kind);
  return found == of_kind.end() ? every : found->second;
}

PrecisionChoice precision_choice_from(const std::string& text) {
  PrecisionChoice choice;
  bool every = false;
  for (const std::string& part : split(text, ',')) {
    const auto equals = part.find('=');
    if (equals == std::string::npos) {
      if (every) {
        throw UserError("--precision", "'" + text +
                                           "' gives every device type two precisions. Name the "
                                           "types: TYPE=" +
                                           part + ".");
      }
      every = true;
      choice.every = part == kAutoPrecision ? std::nullopt : std::optional(precision_named(part));
      continue;
    }
    const std::string kind = part.substr(0, equals);
    if (!choice.of_kind.emplace(kind, precision_named(part.substr(equals + 1))).second) {
      throw UserError("--precision", "device type '" + kind +
                                         "' is given twice (a type has one precision). "
                                         "Remove one.");
    }
  }
  return choice;
}

std::string to_string(const PrecisionChoice& choice) {
  std::vector<std::string> parts{choice.every ? to_string(*choice.every) : kAutoPrecision};
  for (const auto& [kind, precision] : choice.of_kind) {
    parts.push_back(kind + "=" + to_string(precision));
  }
  return join(parts, ",");
}

Json to_json(const PrecisionChoice& choice) { return to_string(choice); }

void from_json(const Json& json, PrecisionChoice& choice) {
  choice = precision_choice_from(json.get<std::string>());
}

}  // namespace hetpipe
