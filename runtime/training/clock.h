// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/pipeline/rank_service.h"
#include "runtime/store/trace.h"

namespace hetpipe {

// How each rank's clock stands to rank 0's: asked for at the start and at the end, when rank 0 does
// nothing but answer. The question with the shortest round trip counts; half of it bounds the
// error.
class ClockComparison {
 public:
  explicit ClockComparison(RankService& service);

  // All ranks together. The second call also knows the drift since the first.
  ClockEstimate compare();

 private:
  struct Reading {
    std::int64_t own_ns = 0;
    double offset_ns = 0;
    double uncertainty_ns = 0;
  };
  Reading ask();

  RankService& service_;
  int answered_ranks_ = 0;  // rank 0: that have asked all their questions, over both rounds
  int rounds_ = 0;
  std::optional<std::int64_t> answer_ns_;
  std::optional<Reading> first_;
};

}  // namespace hetpipe
