// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/transport/transport.h"

// Rank 0 lets the ranks of a probe act one step after the other, so that whoever measures is alone:
//
//   rank 0   -- go, step -->  the ranks of the step   -- reply -->  rank 0, then the next step
//            -- dismissed -->  all
//
// Small control messages only, so that a link that loses large ones does not hold up the others.
namespace hetpipe {

struct ProbeStep {
  std::vector<int> ranks;
  double deadline_seconds = 0;  // a reply that is later is not waited for
};

// What a rank of a step has to say; nothing: it has not been heard of in time.
struct StepReply {
  std::optional<std::string> text;
  std::string failure;  // what `act` threw
};

// Rank 0: replies by step and by place in ProbeStep::ranks. `act`: what a rank does in a step; what
// it throws is its reply. Rank 0 acts too where it stands in a step.
std::vector<std::vector<StepReply>> conduct(Transport& transport,
                                            const std::vector<ProbeStep>& steps,
                                            const std::function<std::string(int step)>& act);

// The others: act until they are dismissed; the exit code that they are told. SystemError when rank
// 0 is not heard of for longer than all steps may take.
int follow(Transport& transport, const std::vector<ProbeStep>& steps,
           const std::function<std::string(int step)>& act);

// Rank 0: lets the others leave, with this exit code.
void dismiss(Transport& transport, int code);

}  // namespace hetpipe
