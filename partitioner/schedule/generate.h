// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "partitioner/plan/schedule_rule.h"
#include "partitioner/schedule/schedule.h"

// Schedules of every rule (plan/schedule_rule.h), as values of F, B and W (schedule.h).
namespace hetpipe {

struct ScheduleRequest {
  int stages = 1;         // positions in the pipeline: devices (or groups of replicas)
  int chunks = 1;         // of the model on each of them, where the rule allows several
  int micro_batches = 1;  // per minibatch; folded where one action computes a whole minibatch
  int in_flight = 1;      // minibatches in flight (Nm), where the rule lets them be chosen
  std::optional<int> most_held{};  // DAPPLE's D: micro-batches that memory allows
  Minibatch first = 0;
  Minibatch end = 1;  // one past the last minibatch
};

// Why the rule cannot do it, "what (why it is one)", or an empty text: with several chunks
// micro-batches come in multiples of the devices, ...
std::string why_impossible(ScheduleRule rule, const ScheduleRequest& request);

// What validate() is to hold the rule's schedules to.
ScheduleForm form_of(ScheduleRule rule, const ScheduleRequest& request, StageSync sync);

// UserError with that text where there is one.
Schedule generate(ScheduleRule rule, const ScheduleRequest& request);

}  // namespace hetpipe
