// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/sample.h"
#include "kernels/buffer.h"
#include "kernels/device.h"
#include "runtime/model/model.h"
#include "runtime/model/parameters.h"

namespace hetpipe {

// What pipelined training is compared with: a whole model on one device, one minibatch at a time,
// layer after layer. Knows nothing of stages, versions or messages. Everything handed in and out is
// host memory; flat arrays are in the order of ParameterLayout::parameters(model, 0, n), statistics
// likewise.
class SerialModel {
 public:
  // Starts from fill_initial(seed). `model` and `device` outlive this.
  SerialModel(const Model& model, Device& device, std::uint64_t seed);

  struct Result {
    std::vector<float> losses;          // of each sample
    std::vector<std::int32_t> correct;  // labels of each sample that are the arg max
    double mean_loss() const;
  };
  // images: samples one after another, each in the model's sample shape. As many keys as samples,
  // and labels_per_sample() labels for each, or label_rows() in a training on mixed samples. Keeps
  // what backward needs.
  Result forward(std::span<const float> images, std::span<const std::int32_t> labels,
                 std::span<const SampleKey> keys, Mode mode, bool update_statistics = true);

  // Gradient of the last forward's loss, averaged over `loss_samples` (0: over its own samples).
  // Uses the parameters as they are now, which may have changed since the forward. Of a tied weight
  // it is the sum over its users, from the last layer to the first, and its owner.
  std::vector<float> backward(std::int64_t loss_samples = 0);

  std::vector<float> parameters() const { return download(parameters_); }
  std::vector<float> statistics() const { return download(statistics_); }
  void set_parameters(std::span<const float> values) { upload(parameters_, values); }
  void set_statistics(std::span<const float> values) { upload(statistics_, values); }

  // The weight changes of one optimizer step on a gradient, and the step itself: w += delta.
  // velocity: as many floats as parameters, updated; may be empty when momentum is 0.
  std::vector<float> sgd_delta(std::span<const float> gradient, std::vector<float>& velocity,
                               const SgdOptions& options);
  std::vector<float> adam_delta(std::span<const float> gradient, std::vector<float>& first,
                                std::vector<float>& second, const AdamOptions& options,
                                std::int64_t step);
  void add_to_parameters(std::span<const float> delta);

 private:
  struct LayerState;

  void prepare(std::int64_t batch);
  void sum_shared_gradients();
  Buffer buffer_of(std::span<const float> values);
  void upload(const Buffer& to, std::span<const float> values);
  std::vector<float> download(const Buffer& from) const;
  const std::byte* value_of(int layer) const;

  const Model& model_;
  Device& device_;
  std::uint64_t seed_;
  std::unique_ptr<Stream> stream_;
  ParameterLayout parameter_layout_;
  ParameterLayout statistics_layout_;
  Buffer parameters_, statistics_, gradients_;
  Buffer uses_;  // parts of gradients of tied weights
  std::int64_t batch_ = 0;
  Mode mode_ = Mode::evaluate;  // of the last forward
  Buffer images_, labels_, correct_;
  std::vector<SampleKey> keys_;
  std::vector<std::shared_ptr<LayerState>> layers_;
};

}  // namespace hetpipe
