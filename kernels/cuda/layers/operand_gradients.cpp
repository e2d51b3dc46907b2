// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layers/operand_gradients.h"

namespace hetpipe::cuda {
TensorReads tensor_reads(std::int64_t elements, const std::vector<const OperandView*>& views) {
  if (views.size() == 1 && views[0]->operand.table.empty() &&
      places_differ(views[0]->loops.all(), views[0]->operand.strides)) {
    return {.once = true, .all = views[0]->loops.elements() == elements};
  }
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(elements), 0);
  TensorReads reads;
  std::int64_t count = 0;
  for (const OperandView* v : views) {
    for (const std::int64_t place : reference::places_of(v->operand, v->loops.all())) {
      std::uint8_t& here = seen[static_cast<std::size_t>(place)];
      reads.once = reads.once && here == 0;
      count += here == 0 ? 1 : 0;
      here = 1;
    }
  }
  reads.all = count == elements;
  return reads;
}

std::int64_t chunk_of(std::int64_t samples, std::int64_t bytes_by_sample) {
  for (std::int64_t parts = 1; parts < samples; ++parts) {
    if (samples % parts == 0 && samples / parts * bytes_by_sample <= kChunkBytes) {
      return samples / parts;
    }
  }
  return 1;
}

}  // namespace hetpipe::cuda
