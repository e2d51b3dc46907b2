// SPDX-License-Identifier: Apache-2.0
#include "launch/check/batch.h"

#include <algorithm>
#include <bit>
#include <span>

#include "base/error.h"
#include "base/index.h"
#include "base/masked_tokens.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "runtime/data/dataset.h"

namespace hetpipe {
namespace {

using Extents = std::vector<std::int64_t>;

// A tensor of a row of this shape for each of `samples` (0: not known yet).
const TensorInFile& tensor_of(const Safetensors& file, const std::string& name,
                              const Extents& shape, std::int64_t samples) {
  const TensorInFile& tensor = file.at(name);
  const std::string path = file.path().string();
  if (tensor.shape.empty()) {
    throw UserError(path, "tensor '" + name + "' has no samples. Give one row for each.");
  }
  if (tensor.elements() != tensor.shape[0] * elements_of(shape) ||
      (samples > 0 && tensor.shape[0] != samples)) {
    throw UserError(path, "tensor '" + name + "' has another shape than the model's " +
                              rows_text(shape) + ". Give one of that shape.");
  }
  return tensor;
}

// (N, shape): numbers as bits.
std::vector<std::int32_t> numbers_of(const Safetensors& file, const SampleFormat::Labels& part) {
  const std::vector<float> values = file.floats(part.name);
  std::vector<std::int32_t> labels(values.size());
  const std::int64_t each = elements_of(part.shape);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
    const std::int64_t e = i % each;
    const std::int64_t place = part.is_image() ? channels_last(e, part.shape) : e;
    labels[at(i - e + place)] = std::bit_cast<std::int32_t>(values[at(i)]);
  }
  return labels;
}

std::vector<std::int32_t> classes_of(const Safetensors& file, const SampleFormat::Labels& part) {
  std::vector<std::int32_t> labels;
  for (const std::int64_t label : file.integers(part.name)) {
    const std::optional<std::int32_t> known = class_label(label, part);
    if (!known) {
      throw UserError(file.path().string(), format("label %lld in '%s' (%s). Write the file again.",
                                                   static_cast<long long>(label), part.name.c_str(),
                                                   classes_text(part).c_str()));
    }
    labels.push_back(*known);
  }
  return labels;
}

}  // namespace

CheckedBatch read_batch(const std::string& path, const SampleFormat& format) {
  const Safetensors file{std::filesystem::path(path)};
  CheckedBatch batch;
  const std::int64_t sample = elements_of(format.sample_shape);
  std::int64_t offset = 0;
  for (const SampleFormat::Input& input : format.inputs) {
    const TensorInFile& tensor = tensor_of(file, input.name, input.shape, batch.samples);
    batch.samples = tensor.shape[0];
    batch.inputs.resize(at(batch.samples * sample));
    const std::vector<float> values = file.floats(input.name);
    const std::int64_t each = elements_of(input.shape);
    for (std::int64_t n = 0; n < batch.samples; ++n) {
      for (std::int64_t e = 0; e < each; ++e) {
        const std::int64_t place = input.is_image() ? channels_last(e, input.shape) : e;
        batch.inputs[at(n * sample + offset + place)] = values[at(n * each + e)];
      }
    }
    offset += each;
  }
  for (const SampleFormat::Labels& part : format.labels) {
    tensor_of(file, part.name, part.shape, batch.samples);
    const std::vector<std::int32_t> labels =
        chosen_labels(part, part.numbers ? numbers_of(file, part) : classes_of(file, part));
    batch.skips |= !part.numbers && std::count(labels.begin(), labels.end(), kNoLabel) > 0;
    batch.labels.insert(batch.labels.end(), labels.begin(), labels.end());
  }
  return batch;
}

double loss_weight_of(const Model& model, const CheckedBatch& batch) {
  const auto [loss, range] = model.weighed_loss();
  if (loss == nullptr) return 0;
  const auto labels =
      std::span(batch.labels)
          .subspan(at(range.first * batch.samples), at(range.count * batch.samples));
  const ConstantTable<float>& weights = loss->class_weights;
  return sum_of_label_weights(labels, {weights.data(), at(weights.size())}) /
         static_cast<double>(batch.samples);
}

CheckedBatch read_batch(const std::string& path, const Model& model, const SampleFormat& format) {
  CheckedBatch batch = read_batch(path, format);
  batch.loss_weight = loss_weight_of(model, batch);
  return batch;
}

}  // namespace hetpipe
