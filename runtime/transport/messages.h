// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <tuple>

#include "runtime/transport/typed_message.h"

// What two ends of a direct path say to each other (DevicePaths).
namespace hetpipe {

enum class TransportKind : std::int32_t { path_word = 1, path_trial, end };

struct PathWord {
  static constexpr auto kKind = TransportKind::path_word;
  enum class Step : std::int32_t { offer, verdict, word, closed };
  Step step = Step::word;
  bool yes = false;    // of an offer: there is one; of a verdict: the trial's bytes came
  std::string text{};  // the offer, why not, or what the path itself says
  static auto fields(auto& m) { return std::tie(m.step, m.yes, m.text); }
};

// Before the bytes of a trial, on Channel::path.
struct PathTrial {
  static constexpr auto kKind = TransportKind::path_trial;
};

}  // namespace hetpipe
