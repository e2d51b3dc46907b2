// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "kernels/device.h"
#include "partitioner/profile/profile.h"
#include "runtime/model/model.h"
#include "runtime/pipeline/time_updates.h"

namespace hetpipe {

// One batch's times against a whole pass: what the layers' times leave out. They agree within a few
// percent on an idle device; a pass that is much longer was interrupted by other work.
struct PassCheck {
  int batch = 0;
  int passes = 0;             // timed layer by layer; as many were not
  double layers_seconds = 0;  // sum of the layers' forward and backward times
  double pass_seconds = 0;    // median forward and backward pass without a clock inside
};

struct MeasureOptions {
  std::string device;                              // name in the profile; empty: the device's kind
  int repetitions = 5;                             // passes at least
  double seconds_per_layer = 0.01;                 // and time spent, times the number of layers
  std::function<void(const PassCheck&)> on_batch;  // called after each batch
  std::function<std::int64_t()> clock = now_ns;    // ns; a test's own is no machine's
  std::optional<MatrixTimes> matrices{};  // which do not depend on the batch; absent: timed
};

// Times every layer of `model` on `device`, alone on it, at each batch. A layer timed by itself in
// a loop finds its data in the caches and looks faster than it ever is in a stage, so layers are
// timed inside passes over the whole model: forward through all layers, backward, then an update
// (SGD with momentum) layer by layer. What the device computes in one go (Device::fuse) is timed in
// one go, as a stage with all of these layers runs it, and each layer's share of that time is its
// share of the flops. A time is the median over passes; equal layers (same spec, input shapes and
// gradients wanted) or groups of them share the mean of their medians. Bytes are those of the
// layers one by one, so that a stage may begin or end at any of them. Damped and orthogonal
// changes of matrices are timed by themselves and come on top of the update. Needs memory for one
// whole minibatch of the largest batch. UserError for batches that are empty, repeated or not
// positive.
Profile measure_profile(const Model& model, Device& device, const std::vector<int>& batches,
                        const MeasureOptions& options = {});

}  // namespace hetpipe
