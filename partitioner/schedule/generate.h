// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "partitioner/schedule/schedule.h"

// Every order of work in the project, as values of F, B and W (schedule.h). Drawings are
// at each generator in its own file.
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

std::vector<std::string> schedule_names();  // "continuous-1f1b" "xpipe" "nf1b" "gpipe" ...
std::string_view to_string(ScheduleRule rule);
std::optional<ScheduleRule> try_parse_schedule_rule(std::string_view name);

// Flushed between minibatches, so that every pass of a minibatch may see one version.
bool has_flush(ScheduleRule rule);
// B computes only the input gradient and W the weight gradient.
bool splits_backward(ScheduleRule rule);

struct ScheduleRequest {
  int stages = 1;  // positions in the pipeline: devices (or groups of replicas)
  int chunks = 1;  // of the model on each of them; only interleaved_1f1b takes more than one
  int micro_batches = 1;  // per minibatch; continuous_1f1b folds them into one action
  int in_flight = 1;      // continuous_1f1b: minibatches in flight (Nm). xpipe and nf1b hold
                          // what their rules say
  std::optional<int> most_held{};  // DAPPLE's D: micro-batches that memory allows
  Minibatch first = 0;
  Minibatch end = 1;  // one past the last minibatch
};

// Why the rule cannot do it, "what (why it is one)", or an empty text: interleaved_1f1b takes
// micro-batches in multiples of the devices, ...
std::string why_impossible(ScheduleRule rule, const ScheduleRequest& request);

// What validate() is to hold the rule's schedules to.
ScheduleForm form_of(ScheduleRule rule, const ScheduleRequest& request, StageSync sync);

// UserError with that text where there is one.
Schedule generate(ScheduleRule rule, const ScheduleRequest& request);

}  // namespace hetpipe
