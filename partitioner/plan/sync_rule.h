// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_rows.h"
#include "partitioner/schedule/schedule.h"

namespace hetpipe {

// What keeps virtual workers, and the replicas of a stage, together.
enum class SyncRule {
  all_reduce,   // before every update
  wsp,          // waves through parameter servers, at most D apart (arXiv 2005.14038)
  asp,          // the same, unbounded
  outer,        // rounds of waves, and a step of the servers after each (arXiv 2311.08105)
  server_step,  // waves of gradients, of which the servers' optimizer makes a step
};

struct SyncTraits {
  SyncRule rule;
  std::string_view name;
  StageSync stage;      // what a stage does for it
  bool bounded = true;  // nobody runs ahead of the others without limit
  bool rounds = false;  // several waves are pushed at once, and the servers make outer steps
  bool steps = false;   // the plan's optimizer runs at the servers (docs/server-step.md)

  constexpr bool waves() const { return stage == StageSync::waves; }
};

inline constexpr std::array<SyncTraits, 5> kSyncRules{{
    {.rule = SyncRule::all_reduce, .name = "all-reduce", .stage = StageSync::all_reduce},
    {.rule = SyncRule::wsp, .name = "wsp", .stage = StageSync::waves},
    {.rule = SyncRule::asp, .name = "asp", .stage = StageSync::waves, .bounded = false},
    {.rule = SyncRule::outer, .name = "outer", .stage = StageSync::waves, .rounds = true},
    {.rule = SyncRule::server_step,
     .name = "server-step",
     .stage = StageSync::waves,
     .steps = true},
}};
static_assert(one_row_each<kSyncRules>());

constexpr const SyncTraits& traits(SyncRule rule) {
  return kSyncRules[static_cast<std::size_t>(rule)];
}
constexpr std::string_view to_string(SyncRule rule) { return traits(rule).name; }
inline std::vector<std::string> sync_names() { return names_of(kSyncRules); }

}  // namespace hetpipe
