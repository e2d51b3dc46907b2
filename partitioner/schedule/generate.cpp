// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/generate.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr std::array<std::string_view, 10> kNames{
    "continuous-1f1b",  "xpipe", "nf1b", "gpipe", "1f1b-flush", "dapple-pa", "dapple-pb",
    "interleaved-1f1b", "zb-h1", "zb-h2"};

// `warm_up` forwards, then one forward, one backward, then the backwards that are left.
void one_forward_one_backward(StageActions& actions, Minibatch minibatch, int micro_batches,
                              int warm_up) {
  int forward = 0;
  for (int backward = 0; backward < micro_batches; ++backward) {
    for (; forward < micro_batches && forward <= backward + warm_up; ++forward) {
      actions.push_back({ActionKind::forward, minibatch, forward, 0, 0});
    }
    actions.push_back({ActionKind::backward, minibatch, backward, 0, 0});
  }
}

}  // namespace

std::vector<std::string> schedule_names() { return {kNames.begin(), kNames.end()}; }

std::string_view to_string(ScheduleRule rule) { return kNames[static_cast<std::size_t>(rule)]; }

std::optional<ScheduleRule> try_parse_schedule_rule(std::string_view name) {
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return std::nullopt;
  return static_cast<ScheduleRule>(at - kNames.begin());
}

bool has_flush(ScheduleRule rule) { return rule >= ScheduleRule::gpipe; }

bool splits_backward(ScheduleRule rule) {
  return rule == ScheduleRule::zb_h1 || rule == ScheduleRule::zb_h2;
}

Schedule generate(ScheduleRule rule, const ScheduleRequest& request) {
  if (rule == ScheduleRule::continuous_1f1b) {
    return continuous_1f1b(request.stages, request.in_flight, request.first, request.end);
  }
  Schedule schedule(static_cast<std::size_t>(request.stages));
  for (int i = 0; i < request.stages; ++i) {
    int warm_up = request.stages - i - 1;
    if (rule == ScheduleRule::gpipe) {
      warm_up = request.micro_batches;
    } else if (rule != ScheduleRule::flush_1f1b) {
      throw UserError("", "schedule '" + std::string(to_string(rule)) + "' is not generated yet");
    }
    for (Minibatch p = request.first; p < request.end; ++p) {
      one_forward_one_backward(schedule[static_cast<std::size_t>(i)], p, request.micro_batches,
                               warm_up);
    }
  }
  return schedule;
}

}  // namespace hetpipe
