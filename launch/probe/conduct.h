// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/transport/transport.h"

// Rank 0 lets the ranks of a probe act one step after the other, so that measurements are alone:
//
//   rank 0   -- go, step -->  the ranks of the step   -- reply -->  rank 0, then the next step
//            -- dismissed -->  all
//
// Only small control messages, so that a link that loses large ones does not delay the others.
namespace hetpipe {

struct ProbeStep {
  std::vector<int> ranks;
  double deadline_seconds = 0;  // a later reply is not waited for
};

// The reply of a rank of a step; nothing: it did not arrive in time.
struct StepReply {
  std::optional<std::string> text;
  std::string failure;  // what `act` threw
};

// Rank 0: replies by step and by place in ProbeStep::ranks. `act`: what a rank does in a step; what
// it throws is its reply. Rank 0 acts too if it is part of a step.
std::vector<std::vector<StepReply>> conduct(Transport& transport,
                                            const std::vector<ProbeStep>& steps,
                                            const std::function<std::string(int step)>& act);

// The others: act until they are dismissed; returns the exit code sent. SystemError when rank
// 0 is silent for longer than all steps may take.
int follow(Transport& transport, const std::vector<ProbeStep>& steps,
           const std::function<std::string(int step)>& act);

// Rank 0: lets the others leave, with this exit code.
void dismiss(Transport& transport, int code);

}  // namespace hetpipe
