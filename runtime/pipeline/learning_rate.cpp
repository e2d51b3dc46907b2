// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/learning_rate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/json.h"

namespace hetpipe {
namespace {

constexpr std::array<std::string_view, 4> kRules{"constant", "step", "cosine", "polynomial"};

// A minibatch that begins where a milestone is has passed it, however the two were rounded.
constexpr double kRounding = 1e-9;

double milestones_passed(const RateSchedule& s, double position) {
  if (s.every > 0) return std::floor(position / s.every + kRounding);
  return static_cast<double>(
      std::count_if(s.milestones.begin(), s.milestones.end(),
                    [&](double milestone) { return position >= milestone * (1 - kRounding); }));
}

}  // namespace

std::vector<std::string> rate_rule_names() { return {kRules.begin(), kRules.end()}; }
std::string_view to_string(RateRule rule) { return kRules[static_cast<std::size_t>(rule)]; }

std::optional<RateRule> try_parse_rate_rule(std::string_view name) {
  const auto found = std::find(kRules.begin(), kRules.end(), name);
  if (found == kRules.end()) return std::nullopt;
  return static_cast<RateRule>(found - kRules.begin());
}

Json to_json(RateRule rule) { return to_string(rule); }

void from_json(const Json& json, RateRule& rule) {
  rule = static_cast<RateRule>(json.place_in(rate_rule_names()));
}

double rate_at(const RateSchedule& s, double base, Minibatch p) {
  const double position = static_cast<double>(p) + s.shift;
  if (position < s.warmup) return base * std::min(1.0, (position + 1) / s.warmup);
  const double rest = s.length - s.warmup;
  const double u = rest > 0 ? std::clamp((position - s.warmup) / rest, 0.0, 1.0) : 1.0;
  switch (s.rule) {
    case RateRule::constant:
      return base;
    case RateRule::step:
      return base * std::pow(s.decay, milestones_passed(s, position));
    case RateRule::cosine:
      return s.final_rate + (base - s.final_rate) * (1 + std::cos(std::numbers::pi * u)) / 2;
    case RateRule::polynomial:
      return s.final_rate + (base - s.final_rate) * std::pow(1 - u, s.power);
  }
  ensure(false, "a rule that rate_at knows");
  return base;
}

}  // namespace hetpipe
