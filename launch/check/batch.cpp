// SPDX-License-Identifier: Apache-2.0
#include "launch/check/batch.h"

#include <bit>

#include "base/error.h"
#include "base/index.h"
#include "base/masked_tokens.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "runtime/data/dataset.h"
#include "runtime/model/graph/graph.h"

namespace hetpipe {
namespace {

// Where element e of a sample of (C, H, W) lies in (H, W, C).
std::int64_t channels_last(std::int64_t e, std::int64_t channels, std::int64_t places) {
  return e % places * channels + e / places;
}

}  // namespace

CheckedBatch read_batch(const std::string& path, const std::string& folder, const Model& model,
                        int ignore_index) {
  const Safetensors file{std::filesystem::path(path)};
  const graph::Graph graph = graph::read_graph(folder);
  CheckedBatch batch;
  const std::int64_t sample = model.batch_shape(1).elements();
  std::int64_t offset = 0;
  for (const graph::Input& input : graph.inputs) {
    const TensorInFile& tensor = file.at(input.name);
    const std::vector<float> values = file.floats(input.name);
    if (tensor.shape.empty()) {
      throw UserError(path, "tensor '" + input.name + "' has no samples. Give one row for each.");
    }
    const std::int64_t samples = tensor.shape[0];
    if (batch.samples == 0) {
      batch.samples = samples;
      batch.inputs.resize(at(samples * sample));
    }
    std::int64_t wanted = 1;
    for (const graph::Extent& e : input.shape) wanted *= e.number;
    if (samples != batch.samples || tensor.elements() != samples * wanted) {
      throw UserError(path, "tensor '" + input.name +
                                "' has another shape than the model's input " +
                                to_string(input.shape) + ". Give one of that shape.");
    }
    const bool image = tensor.shape.size() == 4 && input.type == "float32";
    for (std::int64_t n = 0; n < samples; ++n) {
      for (std::int64_t e = 0; e < wanted; ++e) {
        const std::int64_t place =
            image ? channels_last(e, tensor.shape[1], tensor.shape[2] * tensor.shape[3]) : e;
        batch.inputs[at(n * sample + offset + place)] = values[at(n * wanted + e)];
      }
    }
    offset += wanted;
  }
  if (file.find("labels") == nullptr) return batch;
  const TensorInFile& labels = file.at("labels");
  const std::int64_t wanted = batch.samples * model.labels_per_sample();
  if (labels.elements() != wanted) {
    throw UserError(
        path, format("%lld labels, where the model has %lld. Give as many.",
                     static_cast<long long>(labels.elements()), static_cast<long long>(wanted)));
  }
  if (labels.type == "F32") {
    const std::vector<float> values = file.floats("labels");
    batch.labels.resize(values.size());
    const bool image = labels.shape.size() == 4;
    const std::int64_t each = model.labels_per_sample();
    for (std::int64_t i = 0; i < wanted; ++i) {
      const std::int64_t place =
          image ? i / each * each +
                      channels_last(i % each, labels.shape[1], labels.shape[2] * labels.shape[3])
                : i;
      batch.labels[at(place)] = std::bit_cast<std::int32_t>(values[at(i)]);
    }
  } else {
    for (const std::int64_t label : file.integers("labels")) {
      const bool none = label == ignore_index;
      if (!none && (label < 0 || label >= model.classes())) {
        throw UserError(path, format("label %lld (must be in 0..%d, the model's classes, or %d). "
                                     "Write the file again.",
                                     static_cast<long long>(label), model.classes() - 1,
                                     ignore_index));
      }
      batch.labels.push_back(none ? kNoLabel : static_cast<std::int32_t>(label));
    }
    if (const SoftmaxCrossEntropy* loss = model.weighed_loss()) {
      const ConstantTable<float>& weights = loss->class_weights;
      batch.loss_weight =
          sum_of_label_weights(batch.labels, {weights.data(), at(weights.size())}) /
          static_cast<double>(batch.samples);
    }
  }
  return batch;
}

}  // namespace hetpipe
