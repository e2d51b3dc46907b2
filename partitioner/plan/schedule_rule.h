// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_rows.h"
#include "partitioner/schedule/schedule.h"

// Every order of work that the project knows, one row each: what anybody asks about a schedule is a
// column here, and what is its own alone stands in the file of its generator (schedule/).
namespace hetpipe {

enum class ScheduleRule {
  continuous_1f1b,   // HetPipe, PipeDream, SpecTrain: in_flight minibatches, never flushed
  xpipe,             // the same over micro-batches; those of different minibatches overlap
  nf1b,              // TiMePReSt: N forwards of micro-batches, one backward of the minibatch
  gpipe,             // all forwards, then all backwards
  flush_1f1b,        // warm-up S - i - 1 forwards, then one F, one B; flushed every minibatch
  dapple_pa,         // K_i = min(S - i, D) warm-up forwards
  dapple_pb,         // K_i = min(2 (S - i) - 1, D)
  interleaved_1f1b,  // several chunks of the model per device
  zb_h1,             // zero bubble: B and W apart; memory of 1F1B
  zb_h2,             // zero bubble: 2 (S - i) - 1 activations
};

struct ScheduleRequest;  // schedule/generate.h

// Each takes requests that generate() has checked, and gives per stage F, B and W of minibatches
// first ... end-1. Drawings are at each, in its own file.
namespace generators {
Schedule continuous_1f1b(const ScheduleRequest& request);
Schedule xpipe(const ScheduleRequest& request);
Schedule nf1b(const ScheduleRequest& request);
Schedule gpipe(const ScheduleRequest& request);
Schedule flush_1f1b(const ScheduleRequest& request);
Schedule dapple_pa(const ScheduleRequest& request);
Schedule dapple_pb(const ScheduleRequest& request);
Schedule interleaved_1f1b(const ScheduleRequest& request);
Schedule zb_h1(const ScheduleRequest& request);
Schedule zb_h2(const ScheduleRequest& request);

// Counts of minibatches, see ScheduleTraits.
int one_minibatch(const ScheduleRequest& request);
int in_flight(const ScheduleRequest& request);
int overlap_of_xpipe(const ScheduleRequest& request);
int overlap_of_nf1b(const ScheduleRequest& request);
int under_way_in_nf1b(const ScheduleRequest& request);
}  // namespace generators

struct ScheduleTraits {
  ScheduleRule rule;
  std::string_view name;
  Schedule (*generate)(const ScheduleRequest& request);
  // Flushed between minibatches, so that every pass of a minibatch may see one version.
  bool has_flush = false;
  // What one B is.
  BackwardForm backward = BackwardForm::whole;
  // Micro-batches are folded: one F and one B compute their whole minibatch.
  bool whole_minibatches = false;
  // No B begins before the last F of its minibatch, at any stage.
  bool forwards_first = false;
  // How many minibatches are in flight (Nm) is chosen; elsewhere the rule says it, and what is
  // chosen is the number of micro-batches.
  bool chooses_in_flight = false;
  // Minibatches between F and B at one stage, at most; and in the whole pipeline.
  int (*overlap)(const ScheduleRequest& request) = generators::one_minibatch;
  int (*under_way)(const ScheduleRequest& request) = generators::one_minibatch;
  // A device may have several chunks of the model.
  bool several_chunks = false;
  // Takes a limit of micro-batches held (DAPPLE's D).
  bool limits_held = false;
  // Megatron-DeepSpeed, whose runs are imitated (simulator/megatron.h), has it.
  bool in_megatron = false;

  // Micro-batches of several minibatches are under way at once, each with passes of its own.
  constexpr bool overlaps_micro_batches() const {
    return !has_flush && !whole_minibatches && backward != BackwardForm::by_minibatch;
  }
};

inline constexpr std::array<ScheduleTraits, 10> kScheduleRules{{
    {.rule = ScheduleRule::continuous_1f1b,
     .name = "continuous-1f1b",
     .generate = generators::continuous_1f1b,
     .whole_minibatches = true,
     .chooses_in_flight = true,
     .overlap = generators::in_flight,
     .under_way = generators::in_flight},
    {.rule = ScheduleRule::xpipe,
     .name = "xpipe",
     .generate = generators::xpipe,
     .overlap = generators::overlap_of_xpipe,
     .under_way = generators::overlap_of_xpipe},
    {.rule = ScheduleRule::nf1b,
     .name = "nf1b",
     .generate = generators::nf1b,
     .backward = BackwardForm::by_minibatch,
     .overlap = generators::overlap_of_nf1b,
     .under_way = generators::under_way_in_nf1b},
    {.rule = ScheduleRule::gpipe,
     .name = "gpipe",
     .generate = generators::gpipe,
     .has_flush = true,
     .forwards_first = true},
    {.rule = ScheduleRule::flush_1f1b,
     .name = "1f1b-flush",
     .generate = generators::flush_1f1b,
     .has_flush = true,
     .in_megatron = true},
    {.rule = ScheduleRule::dapple_pa,
     .name = "dapple-pa",
     .generate = generators::dapple_pa,
     .has_flush = true,
     .limits_held = true},
    {.rule = ScheduleRule::dapple_pb,
     .name = "dapple-pb",
     .generate = generators::dapple_pb,
     .has_flush = true,
     .limits_held = true},
    {.rule = ScheduleRule::interleaved_1f1b,
     .name = "interleaved-1f1b",
     .generate = generators::interleaved_1f1b,
     .has_flush = true,
     .several_chunks = true},
    {.rule = ScheduleRule::zb_h1,
     .name = "zb-h1",
     .generate = generators::zb_h1,
     .has_flush = true,
     .backward = BackwardForm::split},
    {.rule = ScheduleRule::zb_h2,
     .name = "zb-h2",
     .generate = generators::zb_h2,
     .has_flush = true,
     .backward = BackwardForm::split},
}};
static_assert(one_row_each<kScheduleRules>());

constexpr const ScheduleTraits& traits(ScheduleRule rule) {
  return kScheduleRules[static_cast<std::size_t>(rule)];
}
constexpr std::string_view to_string(ScheduleRule rule) { return traits(rule).name; }

inline std::vector<std::string> schedule_names() { return names_of(kScheduleRules); }
constexpr std::optional<ScheduleRule> try_parse_schedule_rule(std::string_view name) {
  const ScheduleTraits* const row = find_named(kScheduleRules, name);
  return row == nullptr ? std::nullopt : std::optional(row->rule);
}

}  // namespace hetpipe
