// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "partitioner/plan/schedule_rule.h"
#include "partitioner/schedule/generate.h"
#include "partitioner/schedule/lower.h"

namespace hetpipe {

// Generated and lowered schedules, each made once: those of plans that differ in cuts and devices
// alone are the same. It forgets them all where they would have more than so many actions.
class LoweredSchedules {
 public:
  static constexpr std::size_t kMostActions = 4'000'000;  // some hundred megabytes
  explicit LoweredSchedules(std::size_t most_actions = kMostActions)
      : most_actions_(most_actions) {}

  // UserError as of generate() and lower().
  std::shared_ptr<const Schedule> of(ScheduleRule rule, const ScheduleRequest& request,
                                     const Lowering& how);

 private:
  // What of() is given, in the order of its parts.
  using Key = std::tuple<ScheduleRule, int, int, int, int, int, Minibatch, Minibatch, StageSync,
                         int, int, std::vector<bool>>;

  std::size_t most_actions_;
  std::map<Key, std::shared_ptr<const Schedule>> known_;
  std::size_t actions_ = 0;  // of all
};

}  // namespace hetpipe
