// SPDX-License-Identifier: Apache-2.0
#include "partitioner/schedule/generate.h"

namespace hetpipe {

// XPipe (arXiv 1911.04610): continuous 1F1B whose unit is the micro-batch. Stage k of N holds
// N - k micro-batches, as in 1F1B, whatever minibatch they belong to, so that the pipeline never
// drains; the weights change after the B of a minibatch's last micro-batch.
//   2 stages, 3 minibatches of 2 micro-batches
//   stage 0: F0   F0.1 .    B0   F1   B0.1 F1.1 B1   F2   B1.1 F2.1 B2   .    B2.1
//   stage 1: .    F0   B0   F0.1 B0.1 F1   B1   F1.1 B1.1 F2   B2   F2.1 B2.1 .
Schedule generators::xpipe(const ScheduleRequest& request) {
  const Minibatch micro = request.micro_batches;
  Schedule schedule = hetpipe::continuous_1f1b(request.stages, request.stages,
                                               request.first * micro, request.end * micro);
  for (StageActions& actions : schedule) {
    for (Action& action : actions) {
      action.micro = static_cast<int>(action.minibatch % micro);
      action.minibatch /= micro;
    }
  }
  return schedule;
}

// `stages` consecutive micro-batches touch so many minibatches when they start with the last one of
// a minibatch.
int generators::overlap_of_xpipe(const ScheduleRequest& request) {
  return 1 + (request.stages - 1 + request.micro_batches - 1) / request.micro_batches;
}

}  // namespace hetpipe
