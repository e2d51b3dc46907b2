// SPDX-License-Identifier: Apache-2.0
#include <deque>
#include <utility>

#include "kernels/host_device.h"
#include "kernels/offload/far_memory.h"
#include "kernels/offload/offload_device.h"
#include "kernels/offload/thread_stream.h"

namespace hetpipe {
namespace {

// Floats in the place of activations of another type, for one call.
class AsFloats {
 public:
  explicit AsFloats(const FarMemory& memory) : memory_(memory) {}

  template <class Byte>
  Byte* read(Byte* far, std::int64_t count, ElementType type) {
    Byte* const near = memory_.near(far);
    if (near == nullptr || type == ElementType::fp32) return near;
    std::byte* const copy = fresh(count);
    convert_elements(copy, ElementType::fp32, near, type, count);
    return copy;
  }
  // What stands there is rounded to its place by finish().
  std::byte* written(std::byte* far, std::int64_t count, ElementType type) {
    std::byte* const near = memory_.near(far);
    if (near == nullptr || type == ElementType::fp32) return near;
    std::byte* const copy = fresh(count);
    results_.push_back({near, copy, count, type});
    return copy;
  }
  void finish() const {
    for (const Result& result : results_) {
      convert_elements(result.to, result.type, result.from, ElementType::fp32, result.count);
    }
  }

 private:
  struct Result {
    std::byte* to;
    const std::byte* from;
    std::int64_t count;
    ElementType type;
  };
  std::byte* fresh(std::int64_t count) {
    return activations(copies_.emplace_back(static_cast<std::size_t>(count)).data());
  }

  const FarMemory& memory_;
  std::deque<std::vector<float>> copies_;
  std::vector<Result> results_;
};

template <class T>
std::vector<T*> near_all(const FarMemory& memory, std::span<T* const> far) {
  std::vector<T*> all;
  for (T* const address : far) all.push_back(memory.near(address));
  return all;
}

// What enqueued calls share: they may outlive the kernel, when a run ends early.
struct Body {
  std::shared_ptr<LayerKernel> kernel;
  const FarMemory& memory;
  Stream& host;
  std::vector<std::int64_t> inputs;  // elements
  std::int64_t output;
  ElementType input_type, output_type;

  std::vector<const std::byte*> read(AsFloats& floats,
                                     const std::vector<const std::byte*>& far) const {
    std::vector<const std::byte*> all;
    for (std::size_t i = 0; i < far.size(); ++i) {
      all.push_back(floats.read(far[i], inputs[i], input_type));
    }
    return all;
  }
};

class OffloadKernel final : public LayerKernel {
 public:
  explicit OffloadKernel(std::shared_ptr<const Body> body) : body_(std::move(body)) {}

  void adjust(LayerShapes& shapes) const override { body_->kernel->adjust(shapes); }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const std::vector<const std::byte*> inputs(a.inputs.begin(), a.inputs.end());
    const auto parameters = near_all(body_->memory, a.parameters);
    const auto statistics = near_all(body_->memory, a.statistics);
    const std::vector<SampleKey> samples(a.samples.begin(), a.samples.end());
    dynamic_cast<ThreadStream&>(stream).enqueue(
        [body = body_, a, inputs, parameters, statistics, samples] {
          AsFloats floats(body->memory);
          const std::vector<const std::byte*> read = body->read(floats, inputs);
          ForwardArguments own = a;
          own.inputs = read;
          own.parameters = parameters;
          own.statistics = statistics;
          own.output = floats.written(a.output, body->output, body->output_type);
          own.stash = body->memory.near(a.stash);
          own.samples = samples;
          own.labels = body->memory.near(a.labels);
          own.correct = body->memory.near(a.correct);
          body->kernel->forward(body->host, own);
          floats.finish();
        });
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const std::vector<const std::byte*> inputs(a.inputs.begin(), a.inputs.end());
    const std::vector<std::byte*> gradients(a.input_gradients.begin(), a.input_gradients.end());
    const auto parameters = near_all(body_->memory, a.parameters);
    const auto parameter_gradients = near_all(body_->memory, a.parameter_gradients);
    const std::vector<SampleKey> samples(a.samples.begin(), a.samples.end());
    dynamic_cast<ThreadStream&>(stream).enqueue(
        [body = body_, a, inputs, gradients, parameters, parameter_gradients, samples] {
          AsFloats floats(body->memory);
          const std::vector<const std::byte*> read = body->read(floats, inputs);
          std::vector<std::byte*> made;
          for (std::size_t i = 0; i < gradients.size(); ++i) {
            made.push_back(floats.written(gradients[i], body->inputs[i], body->input_type));
          }
          BackwardArguments own = a;
          own.inputs = read;
          own.output = floats.read(a.output, body->output, body->output_type);
          own.output_gradient = floats.read(a.output_gradient, body->output, body->output_type);
          own.parameters = parameters;
          own.stash = body->memory.near(a.stash);
          own.input_gradients = made;
          own.parameter_gradients = parameter_gradients;
          own.samples = samples;
          own.labels = body->memory.near(a.labels);
          body->kernel->backward(body->host, own);
          floats.finish();
        });
  }

 private:
  std::shared_ptr<const Body> body_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_offload_kernel(std::shared_ptr<LayerKernel> kernel,
                                                 const LayerSpec& spec,
                                                 const std::vector<Shape>& inputs, ElementType type,
                                                 const FarMemory& memory, Stream& host) {
  std::vector<std::int64_t> elements;
  for (const Shape& input : inputs) elements.push_back(input.elements());
  const bool tokens = std::holds_alternative<Embedding>(spec);
  const bool loss = std::holds_alternative<SoftmaxCrossEntropy>(spec);
  return std::make_unique<OffloadKernel>(std::make_shared<const Body>(
      Body{std::move(kernel), memory, host, std::move(elements),
           infer_shapes(spec, inputs).output.elements(), tokens ? ElementType::fp32 : type,
           loss ? ElementType::fp32 : type}));
}

}  // namespace hetpipe
