// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/layer_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "base/error.h"
#include "base/masked_tokens.h"
#include "base/random.h"
#include "kernels/buffer.h"
#include "kernels/host_device.h"
#include "kernels/joint_loss.h"

namespace hetpipe::test {
namespace {

// Exact-sized memory of a device, filled with 0xff: a kernel that reads or leaves what it should
// have written is found. Of the host where that is the device's: its own pool would round sizes up.
class Memory {
 public:
  Memory(Device& device, Stream& stream, std::size_t bytes)
      : device_(device), stream_(stream), bytes_(bytes) {
    const std::vector<std::byte> unwritten(bytes, std::byte{0xff});
    if (device.host_memory()) {
      host_ = unwritten;
    } else {
      there_ = Buffer(device, stream, bytes, MemoryKind::activations);
      write(unwritten.data(), bytes, 0);
    }
  }
  std::byte* data() { return device_.host_memory() ? host_.data() : there_.data(); }
  void write(const void* from, std::size_t bytes, std::size_t offset) {
    if (bytes == 0) return;
    device_.copy(stream_, data() + offset, static_cast<const std::byte*>(from), bytes);
    stream_.synchronize();
  }
  void read(void* to, std::size_t bytes, std::size_t offset) {
    if (bytes == 0) return;
    device_.copy(stream_, static_cast<std::byte*>(to), data() + offset, bytes);
    stream_.synchronize();
  }
  std::size_t bytes() const { return bytes_; }

 private:
  Device& device_;
  Stream& stream_;
  std::size_t bytes_;
  std::vector<std::byte> host_;
  Buffer there_;
};

// Numbers on a device; floats here.
class Tensor {
 public:
  Tensor(Device& device, Stream& stream, ElementType type, std::size_t count, std::int64_t offset)
      : type_(type),
        count_(count),
        before_(static_cast<std::size_t>(offset) * bytes_of(type)),
        memory_(std::make_unique<Memory>(device, stream, before_ + count * bytes_of(type))) {}
  Tensor(Device& device, Stream& stream, ElementType type, const std::vector<float>& values,
         std::int64_t offset)
      : Tensor(device, stream, type, values.size(), offset) {
    std::vector<std::byte> there(count_ * bytes_of(type));
    convert_elements(there.data(), type, activations(values.data()), ElementType::fp32,
                     static_cast<std::int64_t>(count_));
    memory_->write(there.data(), there.size(), before_);
  }
  std::byte* data() { return memory_->data() + before_; }
  float* floats() { return reinterpret_cast<float*>(data()); }
  // What stands before the first element is still as it was.
  std::vector<float> read() {
    std::vector<std::byte> there(memory_->bytes());
    memory_->read(there.data(), there.size(), 0);
    for (std::size_t i = 0; i < before_; ++i) {
      if (there[i] != std::byte{0xff}) ADD_FAILURE() << "written before the start of a tensor";
    }
    std::vector<float> values(count_);
    convert_elements(activations(values.data()), ElementType::fp32, there.data() + before_, type_,
                     static_cast<std::int64_t>(count_));
    return values;
  }

 private:
  ElementType type_;
  std::size_t count_, before_;
  std::unique_ptr<Memory> memory_;
};

template <class Pointer, class Get>
std::vector<Pointer> pointers(std::vector<Tensor>& tensors, const Get& get) {
  std::vector<Pointer> result;
  for (Tensor& tensor : tensors) result.push_back(get(tensor));
  return result;
}
std::byte* bytes(Tensor& tensor) { return tensor.data(); }
float* floats_of(Tensor& tensor) { return tensor.floats(); }

std::vector<std::vector<float>> read(std::vector<Tensor>& tensors) {
  std::vector<std::vector<float>> values;
  for (Tensor& tensor : tensors) values.push_back(tensor.read());
  return values;
}

}  // namespace

std::vector<float> normal_values(std::uint64_t key, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = random_normal(key, i);
  return values;
}

std::string to_string(const LayerCase& c) {
  std::string text = hetpipe::to_string(c.spec) + " of";
  for (const Shape& shape : c.inputs) text += " " + hetpipe::to_string(shape);
  return text;
}

namespace {

LayerValues make_values(const LayerShapes& shapes, const std::vector<Shape>& inputs) {
  LayerValues v;
  std::uint64_t key = 1;
  for (const Shape& s : inputs) v.inputs.push_back(normal_values(key++, s.elements()));
  for (const ParameterShape& p : shapes.parameters) {
    v.parameters.push_back(normal_values(key++, p.shape.elements()));
  }
  for (const ParameterShape& p : shapes.statistics) {
    v.statistics.push_back(normal_values(key++, p.shape.elements()));
    if (p.name != "variance") continue;
    for (float& x : v.statistics.back()) x = 0.5f + std::abs(x);
  }
  v.output_gradient = normal_values(key, shapes.output.elements());
  for (std::int64_t n = 0; n < inputs[0][0]; ++n) v.samples.push_back({3, 1000 + 7 * n});
  return v;
}

}  // namespace

LayerValues make_values(std::span<const ChainedLayer> chain) {
  std::vector<Shape> inputs;
  for (const ChainInput& input : outside_inputs(chain)) {
    inputs.push_back(chain[input.layer].inputs[input.input]);
  }
  return make_values(infer_shapes(chain), inputs);
}

LayerValues make_values(const LayerCase& c) {
  const LayerShapes shapes = infer_shapes(c.spec, c.inputs);
  LayerValues v = make_values(shapes, c.inputs);
  const std::uint64_t key =
      2 + c.inputs.size() + shapes.parameters.size() + shapes.statistics.size();
  if (std::holds_alternative<SoftmaxCrossEntropy>(c.spec)) {
    const std::int64_t classes = c.inputs[0][c.inputs[0].rank() - 1];
    const std::int64_t tokens = c.inputs[0].rank() == 3 ? c.inputs[0][1] : 1;
    const auto& loss = std::get<SoftmaxCrossEntropy>(c.spec);
    const std::int64_t labelled = loss.skips ? tokens / 2 : loss.labelled;
    for (std::int64_t n = 0; n < c.inputs[0].elements() / classes; ++n) {
      const std::uint32_t draw = random_bits(key, static_cast<std::uint64_t>(n));
      // Each sample's are others.
      const bool predicted = labelled == 0 || (n + n / tokens) % tokens < labelled;
      v.labels.push_back(predicted ? static_cast<std::int32_t>(draw % classes) : kNoLabel);
    }
    const std::int64_t mixed = loss.mixed ? c.inputs[0][0] : 0;
    for (std::int64_t n = 0; n < mixed; ++n) {  // every third is mixed with its like
      const std::int32_t own = v.labels[static_cast<std::size_t>(n)];
      v.labels.push_back(static_cast<std::int32_t>((own + n % 3) % classes));
    }
    for (std::int64_t n = 0; n < mixed; ++n) {
      v.labels.push_back(
          std::bit_cast<std::int32_t>(random_uniform(key + 1, static_cast<std::uint64_t>(n))));
    }
  }
  if (const auto* joint = std::get_if<JointLoss>(&c.spec)) {
    for (std::size_t part = 0; part < joint->label_sizes.size(); ++part) {
      const auto reads = [&](const JointLoss::Term& term) {
        return term.labels == static_cast<int>(part) &&
               !std::holds_alternative<OutputLoss>(term.loss);
      };
      const auto term = std::find_if(joint->terms.begin(), joint->terms.end(), reads);
      const Shape& input = c.inputs[static_cast<std::size_t>(term - joint->terms.begin())];
      const LayerValues of = make_values(LayerCase{loss_of(*term), {input}});
      v.labels.insert(v.labels.end(), of.labels.begin(), of.labels.end());
    }
  }
  if (std::holds_alternative<RegressionLoss>(c.spec)) {
    for (const float target : normal_values(key, c.inputs[0].elements())) {
      v.labels.push_back(std::bit_cast<std::int32_t>(target));
    }
  }
  if (const auto* embedding = std::get_if<Embedding>(&c.spec)) {
    for (std::size_t i = 0; i < v.inputs[0].size(); ++i) {
      const std::uint32_t draw = random_bits(key, i);
      v.inputs[0][i] = static_cast<float>(draw % static_cast<std::uint32_t>(embedding->vocabulary));
    }
  }
  return v;
}

namespace {

// A kernel and what it is given.
struct Job {
  LayerShapes shapes;
  std::unique_ptr<LayerKernel> kernel;
  std::vector<bool> read_in_backward = {};  // by input
  bool loss = false;
  bool tokens = false;
  double loss_weight = 0;
};

LayerResult run(Device& device, const Job& job, const LayerValues& values,
                const RunOptions& options) {
  const LayerShapes& shapes = job.shapes;
  const bool loss = job.loss, tokens = job.tokens;
  LayerKernel* const kernel = job.kernel.get();
  const std::unique_ptr<Stream> stream = device.make_stream();
  const ElementType fp32 = ElementType::fp32, type = device.element_type();
  const ElementType of_input = tokens ? fp32 : type, of_output = loss ? fp32 : type;

  // Parameters and their gradients lie in flat arrays: anywhere too.
  const auto tensor = [&](ElementType t, const auto& what) {
    return Tensor(device, *stream, t, what, options.offset);
  };
  const auto tensors = [&](ElementType t, const std::vector<std::vector<float>>& all) {
    std::vector<Tensor> result;
    for (const auto& one : all) result.push_back(tensor(t, one));
    return result;
  };
  const auto same_sizes = [&](ElementType t, const std::vector<std::vector<float>>& all) {
    std::vector<Tensor> result;
    for (const auto& one : all) result.push_back(tensor(t, one.size()));
    return result;
  };
  std::vector<Tensor> inputs = tensors(of_input, values.inputs);
  std::vector<Tensor> parameters = tensors(fp32, values.parameters);
  std::vector<Tensor> frozen = tensors(fp32, values.statistics);
  std::vector<Tensor> updated = tensors(fp32, values.statistics);
  const auto outputs = static_cast<std::size_t>(shapes.output.elements());
  const bool forward_in_place = options.in_place && shapes.forward_in_place;
  const bool backward_in_place = options.in_place && shapes.backward_in_place;
  const std::size_t place = shapes.in_place_input;
  Memory stash(device, *stream, static_cast<std::size_t>(shapes.stash_bytes));
  Memory labels(device, *stream, values.labels.size() * sizeof(std::int32_t));
  labels.write(values.labels.data(), labels.bytes(), 0);
  Memory correct(device, *stream, (loss ? outputs : 0) * sizeof(std::int32_t));

  LayerResult r;
  ForwardArguments f;
  f.labels = reinterpret_cast<const std::int32_t*>(labels.data());
  f.samples = values.samples;
  f.loss_weight = job.loss_weight;
  const auto given = pointers<const std::byte*>(inputs, bytes);
  const auto weights = pointers<const float*>(parameters, floats_of);
  f.parameters = weights;
  const auto forward = [&](Mode mode, std::vector<Tensor>& statistics) {
    f.mode = mode;
    const auto running = pointers<float*>(statistics, floats_of);
    f.statistics = running;
    Tensor output =
        forward_in_place ? tensor(of_output, values.inputs[place]) : tensor(of_output, outputs);
    std::vector<const std::byte*> in = given;
    if (forward_in_place) in[place] = output.data();
    f.inputs = in;
    f.output = output.data();
    kernel->forward(*stream, f);
    stream->synchronize();
    return output;
  };
  r.evaluated = forward(Mode::evaluate, frozen).read();
  f.stash = stash.data();
  f.correct = loss ? reinterpret_cast<std::int32_t*>(correct.data()) : nullptr;
  Tensor output = forward(Mode::train, updated);
  r.output = output.read();
  r.statistics = read(updated);
  if (loss) {
    r.correct.resize(outputs);
    correct.read(r.correct.data(), correct.bytes(), 0);
  }

  std::vector<Tensor> input_gradients = same_sizes(of_input, values.inputs);
  std::vector<Tensor> parameter_gradients = same_sizes(fp32, values.parameters);
  Tensor output_gradient = tensor(type, values.output_gradient);
  auto wanted_inputs = pointers<std::byte*>(input_gradients, bytes);
  if (backward_in_place) wanted_inputs[place] = output_gradient.data();
  const auto wanted_parameters = pointers<float*>(parameter_gradients, floats_of);
  std::vector<const std::byte*> read_again = given;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!job.read_in_backward[i]) read_again[i] = nullptr;
  }
  BackwardArguments b;
  b.inputs = read_again;
  b.output = shapes.backward_needs_output ? output.data() : nullptr;
  b.output_gradient = loss ? nullptr : output_gradient.data();
  b.parameters = weights;
  b.stash = stash.data();
  b.input_gradients = wanted_inputs;
  if (!options.split_backward) b.parameter_gradients = wanted_parameters;
  b.samples = values.samples;
  b.labels = f.labels;
  b.loss_samples = loss ? kLossSamples : 0;
  b.loss_weight = job.loss_weight;
  kernel->backward(*stream, b);
  if (options.split_backward) {
    b.input_gradients = {};
    b.parameter_gradients = wanted_parameters;
    kernel->backward(*stream, b);
  }
  stream->synchronize();
  r.input_gradients = read(input_gradients);
  if (backward_in_place) r.input_gradients[place] = output_gradient.read();
  r.parameter_gradients = read(parameter_gradients);
  return r;
}

// A device's failure says what it was at.
LayerResult run_of(const std::string& what, Device& device, const Job& job,
                   const LayerValues& values, const RunOptions& options) {
  try {
    return run(device, job, values, options);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const SystemError& e) {
    throw SystemError(what + ": " + e.what());
  }
}

}  // namespace

LayerResult run_layer(Device& device, const LayerCase& c, const LayerValues& values,
                      const RunOptions& options) {
  Job job{.shapes = infer_shapes(c.spec, c.inputs),
          .kernel = device.make_kernel(c.spec, c.inputs, kLayerKey),
          .loss = is_loss(c.spec),
          .tokens = std::holds_alternative<Embedding>(c.spec)};
  job.kernel->adjust(job.shapes);
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    job.read_in_backward.push_back(reads_in_backward(job.shapes, i));
  }
  return run_of(to_string(c), device, job, values, options);
}

LayerResult run_chain(Device& device, std::span<const ChainedLayer> chain,
                      const LayerValues& values, const RunOptions& options) {
  Job job{.shapes = infer_shapes(chain), .kernel = device.fuse(chain)};
  if (job.kernel == nullptr) {
    throw std::runtime_error(device.description() + " does not fuse " + to_string(chain));
  }
  job.kernel->adjust(job.shapes);
  for (const ChainInput& input : outside_inputs(chain)) {
    const ChainedLayer& layer = chain[input.layer];
    job.read_in_backward.push_back(infer_shapes(layer.spec, layer.inputs).backward_needs_input);
  }
  return run_of(to_string(chain), device, job, values, options);
}

}  // namespace hetpipe::test
