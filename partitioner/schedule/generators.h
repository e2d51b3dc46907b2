// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/schedule/generate.h"

// The generators behind generate(), one family per file. Each takes requests that generate() has
// checked, and gives per stage F, B and W of minibatches first ... end-1.
namespace hetpipe {

// flush.cpp
Schedule gpipe(const ScheduleRequest& request);
Schedule flush_1f1b(const ScheduleRequest& request);
Schedule dapple_pa(const ScheduleRequest& request);
Schedule dapple_pb(const ScheduleRequest& request);
// `warm_up` forwards of one minibatch, then one forward, one backward, then the backwards left.
void one_forward_one_backward(StageActions& actions, Minibatch minibatch, int micro_batches,
                              int warm_up);

Schedule interleaved_1f1b(const ScheduleRequest& request);  // interleaved.cpp

// zero_bubble.cpp
Schedule zb_h1(const ScheduleRequest& request);
Schedule zb_h2(const ScheduleRequest& request);

Schedule overlapped_micro_batches(const ScheduleRequest& request);  // overlapped.cpp: XPipe
Schedule nf1b(const ScheduleRequest& request);                      // nf1b.cpp: TiMePReSt

}  // namespace hetpipe
