// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layers/matrix_operand.h"

#include "base/error.h"

namespace hetpipe::cuda {

StridedCopy strided_view(const Operand& operand, std::int64_t by_sample, const std::int32_t* table,
                         const LoopNumbers& extents, const LoopNumbers& to_strides,
                         std::int64_t to_by_sample) {
  const bool has_table = !operand.table.empty();
  const LoopNumbers& entries = has_table ? operand.table_strides : LoopNumbers(extents.size(), 0);
  const StridedLoops loops = merged_loops(extents, {operand.strides, to_strides, entries});
  if (loops.extents.size() > static_cast<std::size_t>(kMostStridedLoops)) {
    throw UserError("CUDA device",
                    "has no kernel for a tensor that is seen through more than 12 "
                    "loops");
  }
  StridedCopy copy;
  copy.loop_count = static_cast<int>(loops.extents.size());
  copy.elements = loops.elements();
  std::copy(loops.extents.begin(), loops.extents.end(), copy.extents);
  copy.from.by_sample = by_sample;
  copy.from.offset = operand.offset;
  std::copy(loops.strides[0].begin(), loops.strides[0].end(), copy.from.strides);
  copy.to.by_sample = to_by_sample;
  std::copy(loops.strides[1].begin(), loops.strides[1].end(), copy.to.strides);
  if (has_table) {
    copy.from.table = table;
    std::copy(loops.strides[2].begin(), loops.strides[2].end(), copy.from.table_strides);
  }
  return copy;
}

LoopNumbers plain_strides_of(const LoopNumbers& extents) {
  LoopNumbers strides(extents.size(), 1);
  for (std::size_t i = extents.size(); i-- > 1;) strides[i - 1] = strides[i] * extents[i];
  return strides;
}

KeptArrays kept_table(const LayerContext& context, const Operand& operand) {
  PackedArrays arrays;
  arrays.add(operand.table.data(), static_cast<std::size_t>(operand.table.size()));
  return operand.table.empty() ? KeptArrays() : KeptArrays(context, arrays);
}

}  // namespace hetpipe::cuda
