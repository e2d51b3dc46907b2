// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/pointwise.h"

#include <map>
#include <optional>

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
    if (!forward_) forward_ = keep(steps_, {});
    pointwise_forward(program(*forward_, steps_), data(*forward_, a.inputs, a.parameters), samples_,
                      as<T>(a.output), handle(stream));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      gradient(stream, a, Source::input, i, wanted(a.input_gradients, i), nullptr);
    }
    for (std::size_t i = 0; i < spec_.parameters.size(); ++i) {
      gradient(stream, a, Source::parameter, i, nullptr, wanted(a.parameter_gradients, i));
    }
  }

 private:
  static std::vector<std::int64_t> elements_of(const std::vector<Shape>& inputs) {
    std::vector<std::int64_t> elements;
    for (const Shape& in : inputs) elements.push_back(in.elements() / in[0]);
    return elements;
  }

  // A program's arrays in device memory, and where in them.
  struct KeptProgram {
    std::size_t steps, operands, results;
    std::vector<std::size_t> tables, constants;
    KeptArrays there;
  };
  KeptProgram keep(const std::vector<PointwiseStep>& steps,
                   const std::vector<std::int16_t>& results) const {
    PackedArrays arrays;
    KeptProgram p{arrays.add(steps), arrays.add(views_.operands), arrays.add(results), {}, {}, {}};
    for (const Operand& o : spec_.operands) {
      p.tables.push_back(arrays.add(o.table.data(), static_cast<std::size_t>(o.table.size())));
    }
    for (const ConstantTable<float>& c : spec_.constants) {
      p.constants.push_back(arrays.add(c.data(), static_cast<std::size_t>(c.size())));
    }
    p.there = KeptArrays(context_, arrays);
    return p;
  }
  PointwiseProgram program(const KeptProgram& p, const std::vector<PointwiseStep>& steps) const {
    return views_.program(p.there.template at<PointwiseStep>(p.steps), steps.size(),
                          p.there.template at<PointwiseOperand>(p.operands));
  }
  PointwiseData data(const KeptProgram& p, std::span<const std::byte* const> inputs,
                     std::span<const float* const> parameters) const {
    PointwiseData d;
    for (std::size_t o = 0; o < spec_.operands.size(); ++o) {
      const Operand& operand = spec_.operands[o];
      const auto i = static_cast<std::size_t>(operand.index);
      d.tables[o] = p.there.template at<std::int32_t>(p.tables[o]);
      if (operand.source == Source::input) {
        d.operands[o] = i < inputs.size() ? inputs[i] : nullptr;
      } else if (operand.source == Source::parameter) {
        d.operands[o] = parameters[i];
      } else {
        d.operands[o] = p.there.template at<float>(p.constants[i]);
      }
    }
    return d;
  }

  // Who reads a tensor, in device memory.
  struct KeptReaders {
    PointwiseReaders readers;
    KeptArrays there;
  };
  const PointwiseReaders& readers(Source source, std::size_t i) {
    const auto found = readers_.find({source, i});
    if (found != readers_.end()) return found->second.readers;
    const bool input = source == Source::input;
    const PointwiseReaderLists lists(spec_, views_, source, static_cast<int>(i),
                                     input ? elements_[i] : spec_.parameters[i].shape.elements(),
                                     input ? 1 : samples_);
    KeptReaders kept;
    kept.readers.elements = lists.elements;
    kept.readers.alone = lists.alone;
    kept.readers.many = lists.many;
    if (!lists.starts.empty()) {
      PackedArrays arrays;
      const std::size_t starts = arrays.add(lists.starts), entries = arrays.add(lists.entries);
      kept.there = KeptArrays(context_, arrays);
      kept.readers.starts = kept.there.template at<std::int32_t>(starts);
      kept.readers.entries = kept.there.template at<std::int32_t>(entries);
    }
    return readers_.emplace(std::pair(source, i), std::move(kept)).first->second.readers;
  }

  // One of the two pointers is where it goes; both null: it is not wanted.
  void gradient(Stream& stream, const BackwardArguments& a, Source source, std::size_t i,
                std::byte* input, float* parameter) {
    if (input == nullptr && parameter == nullptr) return;
    if (!backward_) {
      backward_ = keep(gradient_steps_, {gradient_.gradients.begin(), gradient_.gradients.end()});
    }
    const PointwiseProgram derivative = program(*backward_, gradient_steps_);
    const PointwiseData from = data(*backward_, a.inputs, a.parameters);
    const auto* const results = backward_->there.template at<std::int16_t>(backward_->results);
    const T *const dy = as<T>(std::as_const(a.output_gradient)), *const y = as<T>(a.output);
    if (source == Source::input) {
      pointwise_input_gradient(derivative, from, results, readers(source, i), dy, y, samples_,
                               as<T>(input), handle(stream));
    } else {
      pointwise_parameter_gradient(derivative, from, results, readers(source, i), dy, y, samples_,
                                   parameter, handle(stream));
    }
  }

  LayerContext& context_;
  Pointwise spec_;
  ExpressionGradient gradient_;
  std::int64_t samples_;
  std::vector<std::int64_t> elements_;  // of inputs
  PointwiseViews views_;
  std::vector<PointwiseStep> steps_, gradient_steps_;
  std::optional<KeptProgram> forward_, backward_;
  std::map<std::pair<Source, std::size_t>, KeptReaders> readers_;
};

}  // namespace

LayerMaker make_pointwise(LayerContext& context, const Pointwise& spec,
                          const std::vector<Shape>& inputs) {
  return make_of_type<PointwiseLayer>(context, spec, inputs);
}

}  // namespace hetpipe::cuda
