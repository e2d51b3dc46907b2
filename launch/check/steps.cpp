// SPDX-License-Identifier: Apache-2.0
#include "launch/check/steps.h"

#include <algorithm>
#include <map>

#include "base/index.h"
#include "runtime/model/parameters.h"

namespace hetpipe {
namespace {

constexpr std::uint64_t kSeed = 1;

template <class T>
Buffer upload(Device& device, Stream& stream, const std::vector<T>& values, MemoryKind kind) {
  Buffer buffer(device, stream, values.size() * sizeof(T), kind);
  device.copy(stream, buffer.data(), reinterpret_cast<const std::byte*>(values.data()),
              buffer.bytes());
  stream.synchronize();
  return buffer;
}

Buffer initial(const ParameterLayout& layout, Device& device, Stream& stream) {
  std::vector<float> values(at(layout.count()));
  fill_initial(layout, kSeed, values);
  return upload(device, stream, values, MemoryKind::weights);
}

}  // namespace

CheckedSteps::CheckedSteps(const Model& model, std::vector<int> stage_end, Device& device,
                           const OptimizerOptions& optimizer)
    : model_(model), device_(device), stream_(device.make_stream()) {
  for (std::size_t k = 0; k < stage_end.size(); ++k) {
    Part& part = parts_.emplace_back();
    part.stage = std::make_unique<Stage>(model, stage_end, StageId{static_cast<int>(k)}, kSeed,
                                         device, *stream_);
    const ParameterLayout& layout = part.stage->parameters();
    part.optimizer = std::make_unique<Optimizer>(optimizer, device, *stream_, layout);
    part.weights = initial(layout, device, *stream_);
    part.statistics = initial(part.stage->statistics(), device, *stream_);
    const auto floats = [&](std::int64_t count, MemoryKind kind) {
      return Buffer(device, *stream_, at(count) * sizeof(float), kind);
    };
    part.gradients = floats(layout.count(), MemoryKind::gradients);
    part.uses = floats(layout.use_count(), MemoryKind::gradients);
    part.foreign = floats(layout.foreign_count(), MemoryKind::weights);
  }
}

std::vector<float> CheckedSteps::download(const Buffer& buffer) const {
  std::vector<float> values(buffer.bytes() / sizeof(float));
  device_.copy(*stream_, reinterpret_cast<std::byte*>(values.data()), buffer.data(),
               buffer.bytes());
  stream_->synchronize();
  return values;
}

void CheckedSteps::forward(std::vector<Pass>& passes) {
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    Stage& stage = *parts_[k].stage;
    stage.forward(passes[k], parts_[k].stage_weights(), parts_[k].statistics.as<float>(),
                  Mode::train);
    for (const Transfer& transfer : stage.outgoing()) {
      Pass& receiver = passes[at(transfer.to_stage)];
      const Stage& other = *parts_[at(transfer.to_stage)].stage;
      const auto theirs =
          std::find_if(other.incoming().begin(), other.incoming().end(),
                       [&](const Transfer& t) { return t.from_stage == transfer.from_stage; });
      Buffer data(device_, *stream_, at(stage.transfer_bytes(transfer, passes[k].samples)),
                  MemoryKind::messages);
      stage.pack_activations(passes[k], transfer, 0, passes[k].samples, device_.element_type(),
                             data.data());
      receiver.activations_in.push_back({&*theirs, std::move(data)});
    }
  }
}

void CheckedSteps::backward(std::vector<Pass>& passes) {
  for (std::size_t k = parts_.size(); k-- > 0;) {
    Stage& stage = *parts_[k].stage;
    // Gradients in the order of the transfers that they come back along.
    std::vector<Packed> sorted;
    for (const Transfer& transfer : stage.outgoing()) {
      for (Packed& packed : passes[k].gradients_in) {
        if (packed.transfer->to_stage == transfer.to_stage) {
          sorted.push_back({&transfer, std::move(packed.data)});
          break;
        }
      }
    }
    passes[k].gradients_in = std::move(sorted);
    stage.backward(passes[k], parts_[k].stage_weights(),
                   {parts_[k].gradients.as<float>(), parts_[k].uses.as<float>()});
    for (Packed& packed : passes[k].gradients_out) {
      passes[at(packed.transfer->from_stage)].gradients_in.push_back(
          {packed.transfer, std::move(packed.data)});
    }
  }
}

// Parameters of earlier stages, for those that use them.
void CheckedSteps::send_foreign() {
  for (Part& user : parts_) {
    for (const ForeignParameter& foreign : user.stage->parameters().foreign()) {
      for (const Part& owner : parts_) {
        for (const ParameterEntry& entry : owner.stage->parameters().entries()) {
          if (!entry.is_own() || entry.name != foreign.name) continue;
          device_.copy(*stream_,
                       reinterpret_cast<std::byte*>(user.foreign.as<float>() + foreign.offset),
                       reinterpret_cast<const std::byte*>(owner.weights.as<float>() + entry.offset),
                       at(entry.count) * sizeof(float));
        }
      }
    }
  }
}

// The gradient of a tied weight is the owner's part and then those of its users, in the order of
// layers.
void CheckedSteps::sum_shared() {
  for (const Part& user : parts_) {
    for (const ParameterEntry& use : user.stage->parameters().entries()) {
      if (use.is_own()) continue;
      for (Part& owner : parts_) {
        for (const ParameterEntry& entry : owner.stage->parameters().entries()) {
          if (!entry.is_own() || entry.name != use.name) continue;
          device_.add(*stream_, owner.gradients.as<float>() + entry.offset,
                      user.uses.as<float>() + use.offset, entry.count);
        }
      }
    }
  }
}

double CheckedSteps::step(const CheckedBatch& batch, bool keep_gradients) {
  std::vector<Pass> passes(parts_.size());
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    Pass& pass = passes[k];
    const Stage& stage = *parts_[k].stage;
    pass.samples = batch.samples;
    for (std::int64_t i = 0; i < batch.samples; ++i) pass.keys.push_back({0, i});
    if (stage.reads_samples()) {
      pass.images = upload(device_, *stream_, batch.inputs, MemoryKind::activations);
      const ElementType type = sample_type(model_, device_.element_type());
      if (type != ElementType::fp32) {
        Buffer converted(device_, *stream_, batch.inputs.size() * bytes_of(type),
                         MemoryKind::activations);
        device_.convert(*stream_, converted.data(), type, pass.images.data(), ElementType::fp32,
                        static_cast<std::int64_t>(batch.inputs.size()));
        pass.images = std::move(converted);
      }
    }
    if (stage.has_loss()) {
      pass.labels = upload(device_, *stream_, batch.labels, MemoryKind::activations);
      pass.loss_weight = batch.loss_weight;
    }
  }
  send_foreign();
  forward(passes);
  const std::vector<float> losses = download(passes.back().outputs.back());
  double loss = 0;
  for (const float of_sample : losses) loss += static_cast<double>(of_sample);
  backward(passes);
  sum_shared();
  for (Part& part : parts_) {
    if (keep_gradients) part.gradient_values = download(part.gradients);
    const std::int64_t count = part.stage->parameters().count();
    if (count == 0) continue;
    part.optimizer->update(next_, next_ + 1, part.gradients, part.weights.as<float>());
    device_.add(*stream_, part.weights.as<float>(), part.gradients.as<float>(), count);
  }
  stream_->synchronize();
  ++next_;
  return loss / static_cast<double>(batch.samples);
}

std::vector<CheckedTensor> CheckedSteps::named(const ParameterLayout& layout,
                                               const std::vector<float>& values) const {
  std::vector<CheckedTensor> tensors;
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own() || entry.frozen) continue;
    const auto first = values.begin() + entry.offset;
    std::string name = entry.name;
    std::replace(name.begin(), name.end(), '/', '.');
    tensors.push_back({name, entry.file_shape, {first, first + entry.count}});
  }
  return tensors;
}

namespace {

template <class Each>
std::vector<CheckedTensor> joined(std::size_t parts, const Each& each) {
  std::vector<CheckedTensor> all;
  for (std::size_t k = 0; k < parts; ++k) {
    for (CheckedTensor& tensor : each(k)) all.push_back(std::move(tensor));
  }
  return all;
}

}  // namespace

std::vector<CheckedTensor> CheckedSteps::gradients() const {
  return joined(parts_.size(), [&](std::size_t k) {
    return named(parts_[k].stage->parameters(), parts_[k].gradient_values);
  });
}
std::vector<CheckedTensor> CheckedSteps::parameters() const {
  return joined(parts_.size(), [&](std::size_t k) {
    return named(parts_[k].stage->parameters(), download(parts_[k].weights));
  });
}
std::vector<CheckedTensor> CheckedSteps::statistics() const {
  return joined(parts_.size(), [&](std::size_t k) {
    return named(parts_[k].stage->statistics(), download(parts_[k].statistics));
  });
}

}  // namespace hetpipe
