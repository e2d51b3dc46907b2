// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"

// The learning rate as a pure function of a virtual worker's own minibatch number: the same on
// every stage, after every resume, and whatever the others are doing.
//
//   warm-up   p < W      base * (p + 1) / W                      (the first minibatch learns too)
//   constant             base
//   step                 base * decay^k, k = milestones passed, or every so many minibatches
//   cosine               final + (base - final) * (1 + cos(pi * u)) / 2
//   polynomial           final + (base - final) * (1 - u)^power
//                        u = (p - W) / (T - W): 0 behind the warm-up, 1 at the end T
namespace hetpipe {

class Json;

enum class RateRule { constant, step, cosine, polynomial };
std::vector<std::string> rate_rule_names();  // "constant" "step" "cosine" "polynomial"
std::string_view to_string(RateRule rule);
std::optional<RateRule> try_parse_rate_rule(std::string_view name);
Json to_json(RateRule rule);
void from_json(const Json& json, RateRule& rule);

// Positions and lengths count minibatches of one virtual worker from the training's start; they may
// fall between two, since an epoch need not end where a minibatch does.
struct RateSchedule {
  RateRule rule = RateRule::constant;
  double warmup = 0;                 // W
  double decay = 0.1;                // of step
  std::vector<double> milestones{};  // of step, ascending, ...
  double every = 0;                  // ... or repeated; 0: not
  double power = 1;                  // of polynomial
  double final_rate = 0;             // of cosine and polynomial
  double length = 0;                 // T, of the whole training, whatever is resumed
  // Position of minibatch p is p + shift: 0, except after a resume with minibatches of another size
  // than those before.
  double shift = 0;
};
constexpr auto fields_of(Type<RateSchedule>) {
  return fields<&RateSchedule::rule, &RateSchedule::warmup, &RateSchedule::decay,
                &RateSchedule::milestones, &RateSchedule::every, &RateSchedule::power,
                &RateSchedule::final_rate, &RateSchedule::length, &RateSchedule::shift>;
}

// The rate of minibatch p. Beyond the end it is constant.
double rate_at(const RateSchedule& schedule, double base, Minibatch p);

}  // namespace hetpipe
