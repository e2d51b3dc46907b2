// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/pointwise.h"

#include <map>

#include "kernels/cuda/layers/packed_arrays.h"
#include "kernels/cuda/own/pointwise_plan.h"
#include "kernels/pointwise_layer.h"

namespace hetpipe::cuda {
namespace {

template <class T>
class PointwiseLayer final : public LayerKernel {
 public:
  PointwiseLayer(LayerContext& context, const Pointwise& spec, const std::vector<Shape>& inputs)
      : context_(context),
        spec_(merged(spec)),
        gradient_(gradient_of(spec_)),
        samples_(inputs[0][0]),
        elements_(elements_of(inputs)),
        views_(spec_, elements_),
        steps_(pointwise_steps(spec_.expression)),
        gradient_steps_(pointwise_steps(gradient_.steps)) {}

  // Each gradient is a pass of its own over the output's.
  void adjust(LayerShapes& shapes) const override { shapes.backward_in_place = false; }

  void forward(Stream& stream, const ForwardArguments& a) override {
    PackedArrays arrays;
    const Places p = pack(arrays, steps_);
    const Workspace<> there = arrays.upload(context_, stream);
    pointwise_forward(program(there, p, steps_), data(there, p, a.inputs, a.parameters), samples_,
                      as<T>(a.output), handle(stream));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    PackedArrays arrays;
    const Places p = pack(arrays, gradient_steps_);
    const std::vector<std::int16_t> results(gradient_.gradients.begin(), gradient_.gradients.end());
    const std::size_t results_at = arrays.add(results);
    struct Wanted {
      const PointwiseReaderLists* lists;
      std::size_t starts, entries;
      T* input;
      float* parameter;
    };
    std::vector<Wanted> all;
    const auto want = [&](Source source, std::size_t i, T* input, float* parameter) {
      if (input == nullptr && parameter == nullptr) return;
      const PointwiseReaderLists& lists = readers(source, i);
      all.push_back(
          {&lists, arrays.add(lists.starts), arrays.add(lists.entries), input, parameter});
    };
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      want(Source::input, i, as<T>(wanted(a.input_gradients, i)), nullptr);
    }
    for (std::size_t i = 0; i < spec_.parameters.size(); ++i) {
      want(Source::parameter, i, nullptr, wanted(a.parameter_gradients, i));
    }
    if (all.empty()) return;
    const Workspace<> there = arrays.upload(context_, stream);
    const PointwiseProgram derivative = program(there, p, gradient_steps_);
    const PointwiseData from = data(there, p, a.inputs, a.parameters);
    const auto* const of_operand = at<std::int16_t>(there, results_at);
    for (const Wanted& w : all) {
      PointwiseReaders r;
      if (!w.lists->starts.empty()) {
        r.starts = at<std::int32_t>(there, w.starts);
        r.entries = at<std::int32_t>(there, w.entries);
      }
      r.elements = w.lists->elements;
      r.alone = w.lists->alone;
      r.many = w.lists->many;
      if (w.input != nullptr) {
        pointwise_input_gradient(derivative, from, of_operand, r, as<T>(a.output_gradient),
                                 as<T>(a.output), samples_, w.input, handle(stream));
      } else {
        pointwise_parameter_gradient(derivative, from, of_operand, r, as<T>(a.output_gradient),
                                     as<T>(a.output), samples_, w.parameter, handle(stream));
      }
    }
  }

 private:
  static std::vector<std::int64_t> elements_of(const std::vector<Shape>& inputs) {
    std::vector<std::int64_t> elements;
    for (const Shape& in : inputs) elements.push_back(in.elements() / in[0]);
    return elements;
  }

  // Where the arrays of a program lie in what is uploaded.
  struct Places {
    std::size_t steps, operands;
    std::vector<std::size_t> tables, constants;
  };
  Places pack(PackedArrays& arrays, const std::vector<PointwiseStep>& steps) const {
    Places p{arrays.add(steps), arrays.add(views_.operands), {}, {}};
    for (const Operand& o : spec_.operands) {
      p.tables.push_back(arrays.add(o.table.data(), static_cast<std::size_t>(o.table.size())));
    }
    for (const ConstantTable<float>& c : spec_.constants) {
      p.constants.push_back(arrays.add(c.data(), static_cast<std::size_t>(c.size())));
    }
    return p;
  }
  PointwiseProgram program(const Workspace<>& there, const Places& p,
                           const std::vector<PointwiseStep>& steps) const {
    return views_.program(at<PointwiseStep>(there, p.steps), steps.size(),
                          at<PointwiseOperand>(there, p.operands));
  }
  PointwiseData data(const Workspace<>& there, const Places& p,
                     std::span<const std::byte* const> inputs,
                     std::span<const float* const> parameters) const {
    PointwiseData d;
    for (std::size_t o = 0; o < spec_.operands.size(); ++o) {
      const Operand& operand = spec_.operands[o];
      const auto i = static_cast<std::size_t>(operand.index);
      d.tables[o] = at<std::int32_t>(there, p.tables[o]);
      if (operand.source == Source::input) {
        d.operands[o] = i < inputs.size() ? inputs[i] : nullptr;
      } else if (operand.source == Source::parameter) {
        d.operands[o] = parameters[i];
      } else {
        d.operands[o] = at<float>(there, p.constants[i]);
      }
    }
    return d;
  }
  const PointwiseReaderLists& readers(Source source, std::size_t i) {
    const auto found = readers_.find({source, i});
    if (found != readers_.end()) return found->second;
    const bool input = source == Source::input;
    return readers_
        .emplace(std::pair(source, i),
                 PointwiseReaderLists(spec_, views_, source, static_cast<int>(i),
                                      input ? elements_[i] : spec_.parameters[i].shape.elements(),
                                      input ? 1 : samples_))
        .first->second;
  }

  LayerContext& context_;
  Pointwise spec_;
  ExpressionGradient gradient_;
  std::int64_t samples_;
  std::vector<std::int64_t> elements_;  // of inputs
  PointwiseViews views_;
  std::vector<PointwiseStep> steps_, gradient_steps_;
  std::map<std::pair<Source, std::size_t>, PointwiseReaderLists> readers_;
};

}  // namespace

LayerMaker make_pointwise(LayerContext& context, const Pointwise& spec,
                          const std::vector<Shape>& inputs) {
  return make_of_type<PointwiseLayer>(context, spec, inputs);
}

}  // namespace hetpipe::cuda
