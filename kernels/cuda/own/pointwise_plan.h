// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/error.h"
#include "kernels/algebra.h"
#include "kernels/cuda/own/pointwise.h"
#include "kernels/expression_gradient.h"
#include "kernels/strided_loops.h"

// What own/pointwise.h reads, worked out on the host from a layer. Nothing of CUDA is needed here.
namespace hetpipe::cuda {

inline std::vector<PointwiseStep> pointwise_steps(const Expression& expression) {
  if (expression.steps.size() > static_cast<std::size_t>(kMostSteps)) {
    throw UserError("CUDA device", "has no kernel for an expression of more than 64 steps");
  }
  std::vector<PointwiseStep> steps;
  for (const Expression::Step& s : expression.steps) {
    PointwiseStep step;
    if (s.kind == Expression::Kind::variable) {
      step.arguments[0] = s.variable;
    } else if (s.kind == Expression::Kind::number) {
      step.row = PointwiseStep::kNumber;
      step.number = s.number;
    } else {
      step.row = s.op.row;
      for (std::size_t k = 0; k < 3; ++k) {
        step.arguments[k] = s.arguments[k] < 0 ? std::int16_t{0} : s.arguments[k];
      }
    }
    steps.push_back(step);
  }
  return steps;
}

// Operands over as few loops as they can be written in.
struct PointwiseViews {
  std::vector<PointwiseOperand> operands;
  LoopNumbers extents;
  std::int64_t elements = 1;

  PointwiseViews(const Pointwise& layer, const std::vector<std::int64_t>& input_elements) {
    std::vector<LoopNumbers> lanes;
    for (const Operand& o : layer.operands) {
      lanes.push_back(o.strides);
      if (!o.table.empty()) lanes.push_back(o.table_strides);
    }
    const StridedLoops loops = merged_loops(layer.extents, lanes);
    if (loops.extents.size() > static_cast<std::size_t>(kMostLoops) ||
        layer.operands.size() > static_cast<std::size_t>(kMostOperands)) {
      throw UserError("CUDA device",
                      "has no kernel for an expression of more than 8 loops or 14 operands");
    }
    extents = loops.extents;
    elements = loops.elements();
    std::size_t lane = 0;
    for (const Operand& o : layer.operands) {
      PointwiseOperand view;
      view.floats = o.source != Source::input;
      view.has_table = !o.table.empty();
      view.by_sample =
          o.source == Source::input ? input_elements[static_cast<std::size_t>(o.index)] : 0;
      view.offset = o.offset;
      std::copy(loops.strides[lane].begin(), loops.strides[lane].end(), view.strides);
      ++lane;
      if (view.has_table) {
        std::copy(loops.strides[lane].begin(), loops.strides[lane].end(), view.table_strides);
        ++lane;
      }
      operands.push_back(view);
    }
  }

  // `steps` and `operands` in device memory.
  PointwiseProgram program(const PointwiseStep* steps, std::size_t step_count,
                           const PointwiseOperand* there) const {
    PointwiseProgram p;
    p.steps = steps;
    p.step_count = static_cast<int>(step_count);
    p.operands = there;
    p.operand_count = static_cast<int>(operands.size());
    p.loop_count = static_cast<int>(extents.size());
    std::copy(extents.begin(), extents.end(), p.extents);
    p.elements = elements;
    return p;
  }

  // Operand o's place at all elements, in order.
  LoopNumbers places(const Pointwise& layer, std::size_t o) const {
    LoopNumbers index(extents.size(), 0), all;
    const PointwiseOperand& view = operands[o];
    for (std::int64_t e = 0; e < elements; ++e) {
      std::int64_t place = view.offset, entry = 0, rest = e;
      for (std::size_t j = extents.size(); j-- > 0;) {
        place += rest % extents[j] * view.strides[j];
        entry += rest % extents[j] * view.table_strides[j];
        rest /= extents[j];
      }
      all.push_back(view.has_table ? place + layer.operands[o].table[entry] : place);
    }
    return all;
  }
};

// The readers of a tensor: `starts` and `entries` are empty where one operand reads all of it in
// order.
struct PointwiseReaderLists {
  std::vector<std::int32_t> starts, entries;
  std::int64_t elements = 0;
  int alone = -1;
  bool many = false;

  // samples: that an element's gradient is summed over.
  PointwiseReaderLists(const Pointwise& layer, const PointwiseViews& views, Source source,
                       int index, std::int64_t of_tensor, std::int64_t samples)
      : elements(of_tensor) {
    std::vector<std::size_t> own;
    for (std::size_t o = 0; o < layer.operands.size(); ++o) {
      if (layer.operands[o].source == source && layer.operands[o].index == index) own.push_back(o);
    }
    std::vector<LoopNumbers> places;
    for (const std::size_t o : own) places.push_back(views.places(layer, o));
    bool in_order = own.size() == 1 && views.elements == elements;
    for (std::int64_t e = 0; in_order && e < elements; ++e) {
      in_order = places[0][static_cast<std::size_t>(e)] == e;
    }
    std::int64_t terms = samples;
    if (in_order) {
      alone = static_cast<int>(own[0]);
    } else {
      const auto count = static_cast<std::int64_t>(layer.operands.size());
      if (views.elements * count > INT32_MAX) {
        throw UserError("CUDA device",
                        "has no kernel for an expression of more than 2^31 elements of a sample");
      }
      std::vector<std::int32_t> counts(static_cast<std::size_t>(elements) + 1, 0);
      for (const LoopNumbers& of_operand : places)
        for (const std::int64_t p : of_operand) ++counts[static_cast<std::size_t>(p) + 1];
      for (std::size_t e = 1; e < counts.size(); ++e) {
        terms = std::max(terms, samples * counts[e]);
        counts[e] += counts[e - 1];
      }
      starts = counts;
      entries.resize(static_cast<std::size_t>(counts.back()));
      for (std::int64_t e = 0; e < views.elements; ++e)
        for (std::size_t k = 0; k < own.size(); ++k) {
          const auto p = static_cast<std::size_t>(places[k][static_cast<std::size_t>(e)]);
          entries[static_cast<std::size_t>(counts[p]++)] =
              static_cast<std::int32_t>(e * count + static_cast<std::int64_t>(own[k]));
        }
    }
    many = terms >= 64;
  }
};

}  // namespace hetpipe::cuda
