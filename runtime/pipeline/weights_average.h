// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "runtime/pipeline/local_weights.h"

namespace hetpipe {

// The exponential moving average of a rank's weights, on its device, of a run without parameter
// servers. After the updates of a label L
//
//   average(L+1) = decay average(L) + (1 - decay) weights(L+1)
//
// in float, every product rounded, as ParameterServer forms it. All that have the same weights have
// the same average.
class WeightsAverage {
 public:
  WeightsAverage(Device& device, Stream& stream, double decay, std::span<const float> start);

  // The weights' next label: all updates so far, in pieces, whose memory is that of a gradient
  // which is not there between two updates.
  void follow(LocalWeights& weights);

  const Buffer& values() const { return average_; }

 private:
  Device& device_;
  Stream& stream_;
  float keep_, take_;
  std::int64_t count_;
  Buffer average_;
};

}  // namespace hetpipe
