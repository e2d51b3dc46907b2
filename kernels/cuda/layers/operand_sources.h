// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/cuda/layers/packed_arrays.h"

namespace hetpipe::cuda {

// What the operands of a layer (a hetpipe::Product, an Attention) are read from.
class OperandSources {
 public:
  template <class Spec>
  OperandSources(const LayerContext& context, const Spec& spec, const std::vector<Shape>& inputs,
                 std::int64_t type_bytes)
      : type_bytes_(type_bytes) {
    for (const Shape& in : inputs) elements_.push_back(in.elements() / in[0]);
    for (const ParameterShape& p : spec.parameters) parameters_.push_back(p.shape.elements());
    PackedArrays arrays;
    for (const ConstantTable<float>& c : spec.constants) {
      constants_.push_back(arrays.add(c.data(), static_cast<std::size_t>(c.size())));
      constant_elements_.push_back(c.size());
    }
    if (!spec.constants.empty()) kept_ = KeptArrays(context, arrays);
  }

  const std::vector<std::int64_t>& inputs() const { return elements_; }  // elements of a sample
  const std::vector<std::int64_t>& parameters() const { return parameters_; }
  std::int64_t by_sample(const Operand& o) const {
    return o.source == Source::input ? elements_[index(o)] : 0;
  }
  // Of a parameter or constant.
  std::int64_t elements(const Operand& o) const {
    return o.source == Source::parameter  ? parameters_[index(o)]
           : o.source == Source::constant ? constant_elements_[index(o)]
                                          : 0;
  }
  // Where an operand's tensor begins, from a sample on.
  template <class Arguments>
  const void* of(const Operand& o, const Arguments& a, std::int64_t first_sample) const {
    switch (o.source) {
      case Source::input:
        return a.inputs[index(o)] + first_sample * elements_[index(o)] * type_bytes_;
      case Source::parameter:
        return a.parameters[index(o)];
      default:
        return kept_.at<float>(constants_[index(o)]);
    }
  }

 private:
  static std::size_t index(const Operand& o) { return static_cast<std::size_t>(o.index); }

  std::int64_t type_bytes_;
  std::vector<std::int64_t> elements_, parameters_, constant_elements_;
  std::vector<std::size_t> constants_;
  KeptArrays kept_;
};

}  // namespace hetpipe::cuda
