// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/text.h"
#include "runtime/model/vision/vision.h"

namespace hetpipe {

void build_snn_mlp(Model& model, int hidden, int width, float rate) {
  // Weights of variance 1/fan_in.
  const auto linear = [&](int features) {
    const Shape in = model.output_shape(model.layer_count() - 1, 1);
    return Linear{.output_features = features,
                  .deviation = static_cast<float>(1 / std::sqrt(static_cast<double>(in[1])))};
  };
  model.add("flatten", Flatten{});
  for (int i = 1; i <= hidden; ++i) {
    model.add(format("linear%d", i), linear(width));
    model.add(format("selu%d", i), Selu{});
    model.add(format("dropout%d", i), AlphaDropout{rate});
  }
  model.add(format("linear%d", hidden + 1), linear(model.classes()));
}

}  // namespace hetpipe
