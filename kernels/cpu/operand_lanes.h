// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <numeric>
#include <span>
#include <vector>

#include "kernels/algebra.h"
#include "kernels/cpu/pointwise_loops.h"
#include "kernels/strided_loops.h"
#include "kernels/shape.h"

// Operands as lanes of loops, and runs of them to and from plain arrays.
namespace hetpipe {

// An operand under loops: its lane, the lane of its table, and one memory.
struct OperandLane {
  const Operand* operand = nullptr;
  std::size_t lane = 0;
  std::size_t table_lane = 0;  // where it has a table

  bool has_table() const { return !operand->table.empty(); }
};

// Loops over operands: `samples` first where it is not 0, of input_elements each.
class OperandLoops {
 public:
  OperandLoops() = default;
  OperandLoops(const LoopNumbers& extents, std::span<const Operand> operands, std::int64_t samples,
               std::span<const std::int64_t> input_elements) {
    LoopNumbers all = extents;
    if (samples != 0) all.insert(all.begin(), samples);
    std::vector<LoopNumbers> strides;
    const auto add = [&](const LoopNumbers& own, std::int64_t by_sample) {
      strides.push_back(own);
      if (samples != 0) strides.back().insert(strides.back().begin(), by_sample);
      return strides.size() - 1;
    };
    for (const Operand& o : operands) {
      OperandLane l;
      l.operand = &o;
      l.lane =
          add(o.strides,
              o.source == Source::input ? input_elements[static_cast<std::size_t>(o.index)] : 0);
      if (!o.table.empty()) l.table_lane = add(o.table_strides, 0);
      lanes.push_back(l);
    }
    loops = merged_loops(all, strides);
    for (const OperandLane& l : lanes) plain.push_back(!l.has_table() && loops.plain(l.lane));
  }

  std::int64_t inner(const OperandLane& l) const { return loops.inner_stride(l.lane); }
  std::int64_t table_inner(const OperandLane& l) const { return loops.inner_stride(l.table_lane); }

  StridedLoops loops;
  std::vector<OperandLane> lanes;  // of each operand
  std::vector<bool> plain;         // element by element in order, from the operand's offset
};

// Where an operand's run of elements begins, of a walker's places: with the operand's offset, and
// its table's entry where the run has one.
struct RunPlace {
  std::int64_t place = 0;
  const std::int32_t* table = nullptr;  // null: of no table, or one entry for the whole run
};
inline RunPlace run_place(const OperandLoops& o, const OperandLane& l, const std::int64_t* places,
                          std::int64_t within) {
  RunPlace r;
  r.place = l.operand->offset + places[l.lane] + within * o.inner(l);
  if (!l.has_table()) return r;
  const std::int32_t* entry =
      l.operand->table.data() + places[l.table_lane] + within * o.table_inner(l);
  if (o.table_inner(l) == 0) {
    r.place += *entry;
  } else {
    r.table = entry;
  }
  return r;
}

// A run as a plain array: where it lies, if it does, else copied to `scratch`.
inline const float* load_run(const OperandLoops& o, const OperandLane& l, const RunPlace& r,
                             const float* base, std::int64_t count, float* scratch) {
  const float* const from = base + r.place;
  if (r.table != nullptr) {
    loops::load_by_table(scratch, from, o.inner(l), r.table, o.table_inner(l), count);
  } else if (o.inner(l) == 1 || count == 1) {
    return from;
  } else if (o.inner(l) == 0) {
    std::fill_n(scratch, count, *from);
  } else {
    loops::load_strided(scratch, from, o.inner(l), count);
  }
  return scratch;
}

}  // namespace hetpipe
