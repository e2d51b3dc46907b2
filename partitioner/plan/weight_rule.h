// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/enum_rows.h"
#include "partitioner/schedule/counts.h"

// Which weights F and B of a (micro-)batch see, one row per rule: what anybody asks about a rule is
// a column here. runtime/pipeline/pass_weights.h carries a row out.
namespace hetpipe {

enum class WeightRule {
  one_version,    // nothing changes between a minibatch's F and B
  stash,          // B uses the version of its F, kept until then
  vertical_sync,  // as stash, and one version through all stages
  two_versions,   // the newest and the one before (2BW)
  newest,         // B uses what is there, whatever F used
  predicted,      // F (and B again) with weights predicted along the update, s steps ahead
  bellwether,     // as predicted, once per minibatch: its first micro-batch's prediction serves all
  recomputed,     // B runs its forward again with the newest weights
  mixed,          // activations of the old weights, Jacobians of the newest ones
};

// The weights of a pass.
enum class WeightsOf {
  forward,        // B: what its F had, kept until then
  newest,         // what is visible when the pass begins
  minibatch,      // F: what the minibatch's first F at this stage found
  ahead,          // predicted for this pass
  ahead_at_first  // predicted by the minibatch's first pass of its kind, for all of them
};

constexpr bool looks_ahead(WeightsOf weights) {
  return weights == WeightsOf::ahead || weights == WeightsOf::ahead_at_first;
}

// When a stage's own updates become visible to its passes.
enum class Visible {
  // F(p) sees those of minibatches 0 ... p - Nm at every stage, whatever the cut: WSP, vertical
  // sync. B(q) may run before F(q + Nm) is due: its update is then kept back until then.
  exactly,
  at_once,
  // Waves of Nm minibatches make one update each; those of wave w see the updates of waves 0 ...
  // w - 2 (2BW).
  one_wave_late,
};

struct WeightTraits {
  WeightRule rule;
  std::string_view name;
  WeightsOf forward = WeightsOf::newest;
  WeightsOf backward = WeightsOf::forward;
  // Own updates, under all-reduce and in waves.
  Visible visible = Visible::at_once;
  Visible visible_in_waves = Visible::at_once;
  // Nothing may change between F and B of a minibatch: the pipeline is flushed, or has one
  // minibatch in flight.
  bool one_version = false;
  // A version waits for the B of every F that used it: with n minibatches held, n - 1 are kept.
  bool stashes = false;
  // One update for each wave, of all its gradients.
  bool update_by_wave = false;
  // B runs its forward again, whatever the plan says of the stage.
  bool recomputes = false;
  // B's Jacobians and its activations are of two versions, so that its gradient is of neither.
  bool mixes_versions = false;
  // For schedules whose B takes a whole minibatch, and for no other.
  bool of_minibatch_backward = false;
  // In waves a checkpoint can hold all that a bit-identical continuation needs.
  bool continues_exactly = false;
  // How far ahead a prediction looks, counted from the schedule.
  std::vector<VersionDifference> (*steps_ahead)(const Schedule&) = count_version_differences;

  constexpr bool keeps_of_forward() const { return backward == WeightsOf::forward; }
  constexpr bool predicts() const { return looks_ahead(forward); }
  // One prediction serves all passes of its kind.
  constexpr bool shares_predictions() const { return forward == WeightsOf::ahead_at_first; }
};

inline constexpr std::array<WeightTraits, 9> kWeightRules{{
    {.rule = WeightRule::one_version,
     .name = "one-version",
     .visible_in_waves = Visible::exactly,
     .one_version = true,
     .continues_exactly = true},
    {.rule = WeightRule::stash,
     .name = "stash",
     .visible_in_waves = Visible::exactly,
     .stashes = true,
     .continues_exactly = true},
    {.rule = WeightRule::vertical_sync,
     .name = "vertical-sync",
     .visible = Visible::exactly,
     .visible_in_waves = Visible::exactly,
     .stashes = true},
    {.rule = WeightRule::two_versions,
     .name = "two-versions",
     .visible = Visible::one_wave_late,
     .visible_in_waves = Visible::one_wave_late,
     .update_by_wave = true},
    {.rule = WeightRule::newest,
     .name = "newest",
     .backward = WeightsOf::newest,
     .mixes_versions = true},
    {.rule = WeightRule::predicted,
     .name = "predicted",
     .forward = WeightsOf::ahead,
     .backward = WeightsOf::ahead},
    {.rule = WeightRule::bellwether,
     .name = "bellwether",
     .forward = WeightsOf::ahead_at_first,
     .backward = WeightsOf::ahead_at_first,
     .steps_ahead = count_prediction_steps},
    {.rule = WeightRule::recomputed,
     .name = "recompute",
     .forward = WeightsOf::minibatch,
     .backward = WeightsOf::newest,
     .recomputes = true,
     .of_minibatch_backward = true},
    {.rule = WeightRule::mixed,
     .name = "mixed",
     .forward = WeightsOf::minibatch,
     .backward = WeightsOf::newest,
     .mixes_versions = true,
     .of_minibatch_backward = true},
}};
static_assert(one_row_each<kWeightRules>());

constexpr const WeightTraits& traits(WeightRule rule) {
  return kWeightRules[static_cast<std::size_t>(rule)];
}
constexpr std::string_view to_string(WeightRule rule) { return traits(rule).name; }
inline std::vector<std::string> weight_names() { return names_of(kWeightRules); }

}  // namespace hetpipe
