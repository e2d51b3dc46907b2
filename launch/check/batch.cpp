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

std::int64_t elements(const Extents& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::string text_of(const Extents& shape) {
  std::string text = "(N";
  for (const std::int64_t extent : shape) {
    text += format(", %lld", static_cast<long long>(extent));
  }
  return text + ")";
}

// A tensor of a row of this shape for each of `samples` (0: not known yet).
const TensorInFile& tensor_of(const Safetensors& file, const std::string& name,
                              const Extents& shape, std::int64_t samples) {
  const TensorInFile& tensor = file.at(name);
  const std::string path = file.path().string();
  if (tensor.shape.empty()) {
    throw UserError(path, "tensor '" + name + "' has no samples. Give one row for each.");
  }
  if (tensor.elements() != tensor.shape[0] * elements(shape) ||
      (samples > 0 && tensor.shape[0] != samples)) {
    throw UserError(path, "tensor '" + name + "' has another shape than the model's " +
                              text_of(shape) + ". Give one of that shape.");
  }
  return tensor;
}

// Where element e of a sample lies: images, (C, H, W), have their channels innermost.
std::int64_t place_of(std::int64_t e, const Extents& shape, bool image) {
  if (!image) return e;
  const std::int64_t pixels = shape[1] * shape[2];
  return e % pixels * shape[0] + e / pixels;
}

// (N, shape): numbers as bits.
std::vector<std::int32_t> numbers_of(const Safetensors& file, const ExportedLabels& part) {
  const std::vector<float> values = file.floats(part.name);
  std::vector<std::int32_t> labels(values.size());
  const std::int64_t each = elements(part.shape);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
    const std::int64_t place =
        i / each * each + place_of(i % each, part.shape, part.shape.size() == 3);
    labels[at(place)] = std::bit_cast<std::int32_t>(values[at(i)]);
  }
  return labels;
}

std::vector<std::int32_t> classes_of(const Safetensors& file, const ExportedLabels& part) {
  std::vector<std::int32_t> labels;
  for (const std::int64_t label : file.integers(part.name)) {
    const bool none = label == part.ignore_index;
    if (!none && (label < 0 || label >= part.classes)) {
      throw UserError(file.path().string(),
                      format("label %lld in '%s' (must be in 0..%d, the model's classes, or %d). "
                             "Write the file again.",
                             static_cast<long long>(label), part.name.c_str(), part.classes - 1,
                             part.ignore_index));
    }
    labels.push_back(none ? kNoLabel : static_cast<std::int32_t>(label));
  }
  return labels;
}

}  // namespace

CheckedBatch read_batch(const std::string& path, const ExportedSamples& format) {
  const Safetensors file{std::filesystem::path(path)};
  CheckedBatch batch;
  const std::int64_t sample = elements(format.sample_shape);
  std::int64_t offset = 0;
  for (const ExportedInput& input : format.inputs) {
    const TensorInFile& tensor = tensor_of(file, input.name, input.shape, batch.samples);
    batch.samples = tensor.shape[0];
    batch.inputs.resize(at(batch.samples * sample));
    const std::vector<float> values = file.floats(input.name);
    const std::int64_t each = elements(input.shape);
    const bool image = input.shape.size() == 3 && !input.tokens;
    for (std::int64_t n = 0; n < batch.samples; ++n) {
      for (std::int64_t e = 0; e < each; ++e) {
        batch.inputs[at(n * sample + offset + place_of(e, input.shape, image))] =
            values[at(n * each + e)];
      }
    }
    offset += each;
  }
  for (const ExportedLabels& part : format.labels) {
    tensor_of(file, part.name, part.shape, batch.samples);
    const std::vector<std::int32_t> all =
        part.numbers ? numbers_of(file, part) : classes_of(file, part);
    const std::int64_t each = elements(part.shape);
    const std::int64_t read =
        part.from.empty() ? each : static_cast<std::int64_t>(part.from.size());
    for (std::int64_t i = 0; i < batch.samples * read; ++i) {
      const std::int64_t from = part.from.empty() ? i % read : part.from[at(i % read)];
      batch.labels.push_back(from < 0 ? kNoLabel : all[at(i / read * each + from)]);
      batch.skips |= !part.numbers && batch.labels.back() == kNoLabel;
    }
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

CheckedBatch read_batch(const std::string& path, const Model& model,
                        const ExportedSamples& format) {
  CheckedBatch batch = read_batch(path, format);
  batch.loss_weight = loss_weight_of(model, batch);
  return batch;
}

}  // namespace hetpipe
