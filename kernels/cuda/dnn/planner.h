// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "kernels/cuda/context.h"
#include "kernels/cuda/dnn/plan.h"
#include "kernels/element.h"

// The plan for a graph: this process's, or the one that was fastest in an earlier run, or, of those
// that the library recommends and that keep within the context's limits, the one that runs fastest
// now.
namespace hetpipe::cuda {

// SystemError where no engine can do it, with the last one's reason.
std::shared_ptr<const Plan> make_plan(Context& context, std::shared_ptr<const Graph> graph,
                                      Precision precision);
// Null where none can.
std::shared_ptr<const Plan> try_make_plan(Context& context, std::shared_ptr<const Graph> graph,
                                          Precision precision, std::string& reason);

// A graph takes all of its tensors by pointers that it may write through, those it reads too.
inline void* mutable_pointer(const void* memory) { return const_cast<void*>(memory); }  // NOLINT

// Bytes of workspace, rounded up so that what lies behind them is aligned.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace hetpipe::cuda
