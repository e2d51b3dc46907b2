// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hetpipe {

class Json;

// How a device multiplies and stores activations. tf32: fp32 activations whose products
// take 10 bits of mantissa. bf16 and fp16: activations of two bytes, sums in fp32; fp16 needs the
// loss scaled, or its smallest gradients are lost. Parameters are fp32 everywhere.
enum class Precision : std::uint8_t { fp32, tf32, bf16, fp16 };

const std::vector<std::string>& precision_names();  // in the order of the enumeration
std::string to_string(Precision precision);
Precision precision_named(const std::string& name);  // UserError for an unknown one
Json to_json(Precision precision);
void from_json(const Json& json, Precision& precision);

// What suits each card best, where a precision may be named.
inline constexpr const char* kAutoPrecision = "auto";

// The value of --precision and of a plan's `precision`: one for every device type ("bf16"), for
// some ("a100=bf16,titan-v=fp16": the others compute in fp32), for all but some
// ("bf16,titan-v=fp16"). "auto" in place of the first: what suits each card best.
struct PrecisionChoice {
  PrecisionChoice() = default;
  PrecisionChoice(Precision one) : every(one) {}                 // NOLINT: one is such a choice
  PrecisionChoice(std::optional<Precision> one) : every(one) {}  // NOLINT

  std::optional<Precision> every = Precision::fp32;  // of kinds that are not in of_kind
  std::map<std::string, Precision> of_kind;

  std::optional<Precision> of(const std::string& kind) const;  // nothing: auto
  bool operator==(const PrecisionChoice&) const = default;
};
PrecisionChoice precision_choice_from(const std::string& text);  // UserError
std::string to_string(const PrecisionChoice& choice);
Json to_json(const PrecisionChoice& choice);
void from_json(const Json& json, PrecisionChoice& choice);

}  // namespace hetpipe
