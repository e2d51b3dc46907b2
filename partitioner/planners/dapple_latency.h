// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

// DAPPLE's latency of one minibatch through a synchronous pipeline (arXiv 2007.01045, section 4.1).
namespace hetpipe {

// A stage, or the communication between two stages, which counts as a stage of its own without an
// all-reduce. Seconds of one micro-batch; `all_reduce` once per minibatch.
struct PipelineBlock {
  double forward = 0;
  double backward = 0;
  double all_reduce = 0;
};

struct DappleLatency {
  int pivot = 0;       // Q, an index of the blocks
  double warm_up = 0;  // T_w = sum over s <= Q of F_s
  double steady = 0;   // T_s = (M - 1) (F_Q + B_Q)
  // T_e = max over s of AR_s + (sum over s..Q of B if s <= Q, else - sum over Q..s of B)
  double ending = 0;
  double total() const { return warm_up + steady + ending; }
};

// The pivot is the last block, unless going towards the front a block's steady phase outlasts the
// pivot's and what lies between: (M-1)(F_s+B_s) > (M-1)(F_Q+B_Q) + sum over s<t<Q of (F_t+B_t).
// M micro-batches; at least one block.
DappleLatency dapple_latency(std::span<const PipelineBlock> blocks, int micro_batches);

}  // namespace hetpipe
