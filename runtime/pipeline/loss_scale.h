// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>

#include "base/ids.h"

namespace hetpipe {

// The scale of the loss in each wave, if some device keeps activations in fp16: small
// gradients would be lost in it (Micikevicius et al. 2018, section 3.2). Powers of two, which
// change no bit of a gradient that fits. Kept by the stage with the loss; a minibatch's exponent
// travels with its gradients, and every stage takes it out again before the gradient is summed or
// used. Where a gradient came out infinite or NaN its update is left out and the exponent falls;
// after kGrowAfter minibatches without it grows. One exponent for a whole wave: its minibatches may
// make one update.
class LossScale {
 public:
  static constexpr int kFirst = 16;
  static constexpr int kLargest = 24;
  static constexpr int kGrowAfter = 2000;

  struct State {
    int exponent = kFirst;       // of the next wave
    int since_change = 0;        // minibatches; counted up to kGrowAfter
    std::optional<int> begun{};  // exponent of the wave that goes on; none: between two waves
    bool operator==(const State&) const = default;
  };

  explicit LossScale(int in_flight) : LossScale(in_flight, State()) {}
  LossScale(int in_flight, const State& start) : in_flight_(in_flight), state_(start) {}

  int exponent(Minibatch p) {
    const auto [of, first] =
        of_wave_.try_emplace(p / in_flight_, state_.begun.value_or(state_.exponent));
    state_.begun.reset();
    while (of_wave_.size() > kKept) of_wave_.erase(of_wave_.begin());
    if (state_.since_change < kGrowAfter) ++state_.since_change;
    if (state_.since_change == kGrowAfter && state_.exponent < kLargest) {
      change(state_.exponent + 1);
    }
    return of->second;
  }
  // Of a minibatch that was scaled by 2^exponent. False where scaling by less cannot help.
  bool overflowed(int exponent) {
    if (exponent <= 0) return false;
    if (exponent <= state_.exponent) change(exponent - 1);
    return true;
  }
  int newest() const { return state_.exponent; }
  const State& state() const { return state_; }  // between two waves
  State state_after(Minibatch p) const {         // inside of its wave
    return {state_.exponent, state_.since_change, of_wave_.at(p / in_flight_)};
  }

 private:
  static constexpr std::size_t kKept = 64;  // waves; far more than are in flight

  void change(int exponent) { state_ = {exponent, 0, state_.begun}; }

  int in_flight_;
  State state_;
  std::map<std::int64_t, int> of_wave_;
};

inline float scale_of(int exponent) { return std::ldexp(1.0f, exponent); }

}  // namespace hetpipe
