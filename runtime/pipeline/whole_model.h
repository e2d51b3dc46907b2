// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/data/prefetch.h"
#include "runtime/pipeline/stage.h"

namespace hetpipe {

// A trained model, whole, on one device: a pipeline of two stages that wait for each other, of all
// layers but the loss and of the loss. So what the loss reads can be read here as well.
class WholeModel {
 public:
  // Flat values of all layers, in the order of the model's layouts. `model` and `device` outlive
  // it. UserError where the device's precision does not suit the model.
  WholeModel(const Model& model, std::span<const float> parameters,
             std::span<const float> statistics, Device& device);

  // Of a batch, in evaluation: running statistics, no dropout, no label smoothing.
  struct Result {
    double loss_sum = 0;             // over samples, in their order
    std::int64_t correct = 0;        // labels whose arg max is theirs
    std::int64_t labels = 0;         // that are classes
    std::vector<float> logits = {};  // (N, rows(), classes), where they were wanted
  };
  enum class Logits { drop, keep };
  // Needs samples and labels.
  Result evaluate(const Batch& batch, Logits logits);
  // The logits alone; needs no labels. Of a model that predicts classes.
  std::vector<float> predict(const Batch& batch);

  std::int64_t rows() const { return rows_; }  // of predictions of a sample; 1, tokens or pixels
  std::int64_t classes() const { return classes_; }

 private:
  Pass through_network(const Batch& batch);
  std::vector<float> logits_of(const Pass& pass);
  Buffer upload(const void* from, std::size_t bytes, MemoryKind kind);
  template <class T>
  std::vector<T> download(const Buffer& buffer, std::size_t count);

  const Model& model_;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  Stage network_, loss_;
  Buffer parameters_, statistics_;
  std::int64_t rows_ = 0, classes_ = 0;
};

}  // namespace hetpipe
